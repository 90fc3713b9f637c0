"""Old module names of version 0.2: importing one warns and returns the module that replaced it."""

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
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "crosslearning" and name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new_name = f"crosslearning.{MOVED[spec.name.partition('.')[2]]}"
        warnings.warn(
            f"{spec.name} is now {new_name}; the old name goes with version 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(new_name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module was executed under its new name; importlib has replaced its spec.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old names importable."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
