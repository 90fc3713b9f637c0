"""What the tests of certificates share: small runs, and ways to tamper with them."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from crosslearning._base.files import write_tensors
from crosslearning.runs import make_config, train

#: Run folders of earlier versions.
FILES = Path(__file__).parent.parent / "files"
FIELDS = {
    "iterations": 60,
    "checkpoint_every": 25,
    "log_every": 5,
    "max_knots": 40,
    "epsilon": 1.5,
    "seed": 3,
}
FULL = np.eye(5) + 0.3 * np.ones((5, 5))
WAVE = {"kernel": "matern32", "std": [2.0, 1.0, 1.5], "periodic": [[1, 6.3]]}
WIDE = {"kernel": "laplacian", "std": [2.0, 2.0, 3.0]}
SUM = {
    "kernel": "sum",
    "parts": [
        [{"kernel": "gaussian", "std": [2.0]}, [0]],
        [{"kernel": "linear", "std": [4.0], "bias": 1.0}, [1]],
    ],
    "scales": [0.5, 2.0],
}
KERNELS = {
    "default": None,
    "gaussian": {"kernel": "gaussian", "std": [1.5, 1.0, 1.5, 1.0, 0.8]},
    "covariance": {"kernel": "gaussian", "covariance": FULL.tolist()},
    "periodic": {
        "kernel": "gaussian",
        "covariance": [2.0, 0.5, 1.0, 0.5, 0.5],
        "periodic": [[4, 2 * math.pi], [1, 6.0]],
    },
    "logarithmic": {
        "kernel": "gaussian",
        "std": [0.3, 0.7, 1.0, 0.7, 0.8],
        "periodic": [[1, 2 * math.pi]],
        "logarithmic": [[0, 0.2], [2, 1.0]],
    },
    "matern32": {"kernel": "matern32", "std": [1.5, 1.0, 1.5, 1.0, 0.8]},
    "matern52": {"kernel": "matern52", "std": [1.5, 1.0, 1.5, 1.0, 0.8], "periodic": [[4, 6.3]]},
    "laplacian": {"kernel": "laplacian", "std": [3.0, 2.0, 3.0, 2.0, 1.5]},
    "linear": {"kernel": "linear", "std": [3.0, 1.0, 3.0, 1.0, 1.0], "bias": 1.0},
    "polynomial": {"kernel": "polynomial", "std": [5.0] * 5, "degree": 3, "bias": 0.5},
    "product": {
        "kernel": "product",
        "parts": [
            [{"kernel": "matern32", "std": [2.0, 1.0], "periodic": [[1, 6.3]]}, [0, 4]],
            [{"kernel": "linear", "std": [4.0], "bias": 2.0}, [2]],
            [{"kernel": "laplacian", "std": [2.0, 2.0]}, [1, 3]],
        ],
    },
    "sum": {
        "kernel": "sum",
        "parts": [
            [{"kernel": "gaussian", "std": [2.0, 1.0, 2.0, 1.0, 1.0]}, [0, 1, 2, 3, 4]],
            [{"kernel": "linear", "std": [4.0, 3.0], "bias": 1.0}, [0, 2]],
        ],
        "scales": [1.0, 0.3],
    },
    "product of sums": {
        "kernel": "product",
        "parts": [
            [SUM, [0, 1]],
            [{"kernel": "sum", "parts": [[WAVE, [0, 1, 2]], [WIDE, [2, 0, 1]]]}, [2, 3, 4]],
        ],
    },
}


def as_version_1(arrays, description):
    """Write a learner's file as version 1 had it, which knew one method alone."""
    arrays["mean_square"] = arrays.pop("method.mean_square")
    description["version"] = 1
    del description["method"], description["settings"]["method"]


def small_run(path: Path, **fields) -> Path:
    """Train a tiny run of the paper's tasks in a new folder."""
    outcome = train(path, make_config({**FIELDS, **fields}))
    assert outcome.finished
    return path


def copy_of(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder / "copy")
    return folder / "copy"


def edit_model(path: Path, change, checksum: str = "anew") -> None:
    """Rewrite a tensor file after ``change(arrays, description)``.

    The checksum is made anew, or kept as it was.
    """
    with safetensors.safe_open(path, framework="numpy") as opened:
        metadata = opened.metadata()
        arrays = {name: opened.get_tensor(name).copy() for name in opened.keys()}  # noqa: SIM118
    description = json.loads(metadata["crosslearning"])
    stored = description.pop("sha256")
    change(arrays, description)
    if checksum == "anew":
        kind, version = description.pop("kind"), description.pop("version")
        write_tensors(path, kind, version, arrays, description)
    else:
        text = json.dumps({**description, "sha256": stored}, sort_keys=True)
        path.write_bytes(safetensors.numpy.save(arrays, metadata={"crosslearning": text}))


def edit_text(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new, 1))


def renew_digests(run: Path) -> None:
    """Make the record's digests fit the files, as a careful forger would."""
    record = json.loads((run / "record.json").read_text())
    names = {"model": "model.safetensors", "config": "config.toml", "metrics": "metrics.jsonl"}
    for key, name in names.items():
        record["sha256"][key] = hashlib.sha256((run / name).read_bytes()).hexdigest()
    (run / "record.json").write_text(json.dumps(record))
