"""Kind and version of a learner's file, without the imports of the learner."""

FILE_KIND = "learner"
#: Raised when an older crosslearning could not read it.
FILE_VERSION = 2
