"""What a learner's file says that it is, for whoever looks into one without a learner."""

FILE_KIND = "learner"
#: Raised when an older crosslearning could not read it.
FILE_VERSION = 2
