"""Runs: configuration, folders, metrics, progress and resuming."""

from crosslearning.runs.config import RunConfig, describe_fields, make_config, read_config
from crosslearning.runs.driver import Outcome, resume, train
from crosslearning.runs.folder import RunFolder

__all__ = [
    "Outcome",
    "RunConfig",
    "RunFolder",
    "describe_fields",
    "make_config",
    "read_config",
    "resume",
    "train",
]
