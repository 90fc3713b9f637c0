"""The record of a finished run: numbers of its model and digests of its files.

Verification recomputes them independently, so that later edits are found.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslearning._base.files import read_file
from crosslearning.learner import CrossLearner
from crosslearning.runs.system_info import system_info

#: The format of ``record.json``; raised when an older crosslearning could not read it.
RECORD_VERSION = 1


def make_record(learner: CrossLearner, files: Mapping[str, Path]) -> dict[str, Any]:
    """Return the record of a learner and of files, as plain data: an infinite ε is ``"inf"``."""
    family, epsilon = learner.family, learner.settings.epsilon
    return {
        "version": RECORD_VERSION,
        "iteration": learner.iteration,
        "steps": learner.steps,
        "tasks": [task.name for task in learner.tasks],
        "epsilon": epsilon if math.isfinite(epsilon) else "inf",
        "kernel": learner.kernel.to_dict(),
        "knots": len(family.knots),
        "norms": family.norms().tolist(),
        "distances": family.distances().tolist(),
        "sha256": {k: hashlib.sha256(read_file(path)).hexdigest() for k, path in files.items()},
        "made_with": system_info(),
    }
