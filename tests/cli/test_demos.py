"""The shows: a table, a moving picture, and clear words where nothing can be written."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.analysis import fleet as fleet_module
from crosslearning.analysis.fleet import train_fleet
from crosslearning.analysis.model_errors import KINDS

runner = CliRunner()
TINY = {"round_steps": 15, "updates_per_round": 2, "rollouts": 2, "look_ahead": 4}


@pytest.fixture(scope="module")
def tiny():
    return train_fleet(2, 30, seed=1, trials=3, **TINY)


@pytest.fixture
def quick(monkeypatch, tiny):
    monkeypatch.setattr(fleet_module, "train_fleet", lambda *asked, **options: tiny)


def test_a_fleet_is_learned_under_every_kind_of_models(tiny):
    assert [crew.kind for crew in tiny.crews] == list(KINDS)
    assert tiny.steps == 30
    assert tiny.seconds == pytest.approx(1.5)
    for crew in tiny.crews:
        assert crew.returns.shape == crew.upright.shape == (2, 3)
        # The first start of the picture hangs, the others stand evenly around the circle.
        assert crew.angles.shape == (2, 5, 201)
        assert np.allclose(crew.angles[:, :, 0], np.pi * np.array([-1.0, -0.6, -0.2, 0.2, 0.6]))
        assert crew.returns.mean(axis=1)[crew.worst] == crew.returns.mean(axis=1).min()
        assert crew.mean_return.value == pytest.approx(crew.returns.mean())
    returns = [crew.returns.tolist() for crew in tiny.crews]
    assert returns[0] != returns[1] != returns[2]


def test_fleet_prints_a_table_and_writes_pictures(tmp_path, quick):
    out = tmp_path / "new" / "fleet"
    shown = runner.invoke(cli.app, ["demo", "fleet", "--out", str(out), "--machines", "2"])
    assert shown.exit_code == 0, shown.output
    for word in (*KINDS, "upright at the end", "worst machine", str(out / "fleet.gif")):
        assert word in shown.output
    numbers = json.loads((out / "fleet.json").read_text())
    assert [crew["models"] for crew in numbers["crews"]] == list(KINDS)
    assert len(numbers["crews"][0]["returns"]) == len(numbers["machines"]) == 2
    with Image.open(out / "fleet.gif") as moving:
        assert moving.n_frames > 100
        assert moving.info["loop"] == 0
    assert (out / "fleet.gif").stat().st_size < 3_000_000
    with Image.open(out / "fleet.png") as still:
        assert still.width > 500


def test_fleet_as_json_prints_nothing_else(tmp_path, quick):
    shown = runner.invoke(cli.app, ["demo", "fleet", "--out", str(tmp_path), "--json"])
    assert json.loads(shown.stdout) == json.loads((tmp_path / "fleet.json").read_text())


def test_a_file_in_the_way_is_told_before_anything_is_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_module, "train_fleet", None)
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        shown = runner.invoke(cli.app, ["demo", "fleet", "--out", str(out)])
        assert "is a file; choose a folder" in str(shown.exception)


@pytest.mark.parametrize(("machines", "steps", "words"), [(1, 50, "machines"), (2, 0, "steps")])
def test_a_fleet_says_what_it_cannot_be(machines, steps, words):
    with pytest.raises(ValueError, match=words):
        train_fleet(machines, steps)


def test_ctrl_c_is_one_line(tmp_path, monkeypatch):
    def pressed(*asked, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet_module, "train_fleet", pressed)
    shown = runner.invoke(cli.app, ["demo", "fleet", "--out", str(tmp_path / "out")])
    assert shown.exit_code == 130
    assert "Interrupted" in shown.output
    assert not (tmp_path / "out").exists()
