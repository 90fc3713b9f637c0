"""Modules under their names of version 0.2: importing one warns, and gives the one of today."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The public modules that have moved.
MOVED = {
    "adaptation": "analysis.adaptation",
    "comparison": "analysis.comparison",
    "compiled": "_base.compiled",
    "evaluation": "learner.evaluation",
    "files": "_base.files",
    "filming": "analysis.recording",
    "gradients": "learner.gradients",
    "identification": "analysis.identification",
    "logged": "analysis.logged",
    "model_errors": "analysis.model_errors",
    "models": "learner.model_based",
    "monitoring": "learner.callbacks",
    "paper": "reproduction.paper",
    "plain_kernels": "_base.plain_kernels",
    "relatedness": "analysis.relatedness",
    "report": "figures.report",
    "runs.shelf": "runs.listing",
    "statistics": "_base.statistics",
    "sweep": "analysis.sweep",
    "theory": "reproduction.theorem",
    "trajectories": "analysis.trajectories",
}


class _Moved(MetaPathFinder, Loader):
    """Finds modules under their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module that has moved; None for all others."""
        package, _, name = fullname.partition(".")
        if package != "crosslearning" or name not in MOVED:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of today."""
        today = f"crosslearning.{MOVED[spec.name.partition('.')[2]]}"
        warnings.warn(
            f"{spec.name} is now {today}; the old name goes with version 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(today)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it was loaded under its name of today."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let old names be imported."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
