"""The command line: one thin command a verb."""

# Commands register themselves, in the order in which help lists them.
from crosslearning.cli import training  # isort: skip
from crosslearning.cli import showing  # isort: skip
from crosslearning.cli import measuring  # isort: skip
from crosslearning.cli import studies  # isort: skip
from crosslearning.cli import logs  # isort: skip
from crosslearning.cli import planning  # isort: skip
from crosslearning.cli.application import app, main

__all__ = ["app", "logs", "main", "measuring", "planning", "showing", "studies", "training"]
