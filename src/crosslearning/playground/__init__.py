"""The playground: a page in which policies drive, swing and learn, without a server."""

from crosslearning.playground.page import write_page

__all__ = ["write_page"]
