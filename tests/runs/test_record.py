"""The record of a run, and what its metrics keep of pruning."""

import hashlib
import json

import numpy as np
import pytest

from crosslearning.errors import StorageError
from crosslearning.learner import CrossLearner
from crosslearning.runs import RunFolder, folder, make_config, resume, train

FIELDS = {"iterations": 40, "checkpoint_every": 15, "log_every": 5, "max_knots": 60, "seed": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "run"
    assert train(path, make_config(FIELDS)).finished
    return path


def test_the_record_tells_of_the_finished_learner(run):
    record = json.loads((run / "record.json").read_text())
    learner = RunFolder.open(run).load()
    assert record["iteration"] == 40
    assert record["tasks"] == ["r=0.5", "r=1", "r=2"]
    assert record["epsilon"] == 3.0
    assert record["knots"] == len(learner.family.knots)
    assert record["kernel"] == learner.kernel.to_dict()
    np.testing.assert_array_equal(record["norms"], learner.family.norms())
    np.testing.assert_array_equal(record["distances"], learner.family.distances())
    for key, name in (("model", "model.safetensors"), ("metrics", "metrics.jsonl")):
        assert record["sha256"][key] == hashlib.sha256((run / name).read_bytes()).hexdigest()


def test_an_infinite_radius_is_a_word(tmp_path):
    train(tmp_path / "run", make_config({**FIELDS, "iterations": 2, "epsilon": "inf"}))
    text = (tmp_path / "run" / "record.json").read_text()
    assert json.loads(text, parse_constant=lambda word: 1 / 0)["epsilon"] == "inf"


def test_a_model_never_stands_without_its_record(tmp_path, monkeypatch, run):
    def full(path, content):
        raise StorageError("No space left on device")

    path = tmp_path / "run"
    with monkeypatch.context() as patched:
        real = folder.files.write_atomically
        patched.setattr(
            folder.files,
            "write_atomically",
            lambda p, c: full(p, c) if p.name == "record.json" else real(p, c),
        )
        with pytest.raises(StorageError):
            train(path, make_config(FIELDS))
    assert not (path / "model.safetensors").exists()
    assert resume(path).finished
    for name in ("model.safetensors", "record.json", "metrics.jsonl"):
        assert (path / name).read_bytes() == (run / name).read_bytes()
    assert not list(path.glob(".*"))


def test_the_metrics_sum_up_what_pruning_did(run):
    reports = []
    settings = {name: FIELDS[name] for name in ("max_knots", "seed")}
    CrossLearner("paper", **settings).learn(40, reports.append)
    lines = RunFolder.open(run).read_metrics()
    assert [line["iteration"] for line in lines] == [5, 10, 15, 20, 25, 30, 35, 40]
    for line in lines:
        now = [
            r.pruning for r in reports if line["iteration"] - 5 < r.iteration <= line["iteration"]
        ]
        largest = [float(np.max(pruning.errors[:4])) for pruning in now]
        assert line["pruning_error"] == max(largest)
        assert line["pruning_spent"] == sum(largest)
        assert line["over_budget"] == sum(not pruning.within_budget for pruning in now)
        assert line["over_budget_by_cap"] == sum(pruning.forced_by_cap > 0 for pruning in now)
    # The cap of 60 knots is reached on the way: both kinds of iterations occur.
    assert 0 < sum(line["over_budget"] for line in lines) < 40
