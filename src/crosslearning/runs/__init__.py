"""Runs: configuration, folders, metrics, progress and resuming."""

from typing import TYPE_CHECKING

from crosslearning._base.lazy import lazy_exports
from crosslearning.runs.config import LOGGED, RunConfig, describe_fields, make_config, read_config

if TYPE_CHECKING:
    from crosslearning.runs.driver import Outcome, resume, train
    from crosslearning.runs.folder import RunFolder

__all__ = [
    "LOGGED",
    "Outcome",
    "RunConfig",
    "RunFolder",
    "describe_fields",
    "make_config",
    "read_config",
    "resume",
    "train",
]

_DRIVER = dict.fromkeys(("Outcome", "resume", "train"), f"{__name__}.driver")
__getattr__ = lazy_exports(__name__, {"RunFolder": f"{__name__}.folder", **_DRIVER})
