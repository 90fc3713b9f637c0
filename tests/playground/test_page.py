"""The page as a file: whole in itself, small, and of runs that it can play."""

import json
import re
import webbrowser

import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli
from crosslearning.errors import InputError
from crosslearning.playground import write_page
from crosslearning.playground.families import family_of
from crosslearning.playground.page import SCRIPTS, page_data, page_text
from crosslearning.rkhs import PairKernel

runner = CliRunner()


def test_the_page_is_one_small_file_that_asks_for_nothing(tmp_path):
    path = write_page(tmp_path / "new" / "page.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    assert "{{" not in text
    assert re.findall(r"https?://|\bsrc=|\bimport\b *[({]|fetch\(|XMLHttpRequest", text) == []
    # Every script is there, once, and none ends before its end.
    assert re.findall(r'<script id="([^"]+)">', text) == list(SCRIPTS)
    assert text.count("</script>") == len(SCRIPTS) + 1


def test_data_cannot_end_the_script_that_holds_them():
    family = {**page_data()["drive"][0], "title": "</script><!-- x"}
    text = page_text([family])
    held = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(held.replace("<\\!--", "<!--"))["drive"][0]["title"] == "</script><!-- x"


def test_what_is_no_playground_is_not_written_over(tmp_path):
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    with pytest.raises(InputError, match=r"is there and is no playground"):
        write_page(notes)
    assert notes.read_text() == "mine"
    with pytest.raises(InputError, match="is a folder"):
        write_page(tmp_path)
    page = write_page(tmp_path / "page.html")
    assert write_page(page) == page


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return folders of short runs by the tasks that they are of."""
    folder = tmp_path_factory.mktemp("runs")
    for name, tasks in (("robots", "paper"), ("swings", "pendulums:2"), ("carts", "cart-poles:2")):
        asked = ["train", "--out", str(folder / name), "--tasks", tasks]
        asked += ["--method", "trust-region", "--iterations", "1"]
        done = runner.invoke(cli.app, asked)
        assert done.exit_code == 0, done.output
    return folder


def test_play_shows_runs(tmp_path, runs, monkeypatch):
    seen = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(seen.append(address)) or True)
    out = tmp_path / "page.html"
    asked = ["play", str(runs / "robots"), str(runs / "swings"), "--out", str(out)]
    shown = runner.invoke(cli.app, asked)
    assert shown.exit_code == 0, shown.output
    assert "page.html (" in shown.output
    assert seen == [out.resolve().as_uri()]
    held = re.search(r'id="data">(.*?)</script>', out.read_text(encoding="utf-8"), re.DOTALL)[1]
    data = json.loads(held)
    (robots,), (swings,) = data["drive"], data["swing"]
    assert robots["title"] == "robots"
    assert [one["name"] for one in robots["policies"]] == ["central", "r=0.5", "r=1", "r=2"]
    assert [one["name"] for one in robots["scenes"]] == ["r=0.5", "r=1", "r=2"]
    assert robots["scenes"][1]["scene"]["obstacles"][0]["a"] == 1.0
    assert len(swings["machines"]) == 2
    assert swings["machines"][0].keys() == {"g", "m", "l"}


def test_play_without_a_browser_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    shown = runner.invoke(cli.app, ["play", "--out", str(tmp_path / "page.html")])
    assert shown.exit_code == 0, shown.output
    assert "No browser" in shown.output
    quiet = runner.invoke(cli.app, ["play", "--out", str(tmp_path / "page.html"), "--no-open"])
    assert "No browser" not in quiet.output


def test_a_run_of_other_tasks_gets_a_clear_sentence(tmp_path, runs):
    shown = runner.invoke(cli.app, ["play", str(runs / "carts"), "--out", str(tmp_path / "x.html")])
    assert isinstance(shown.exception, InputError)
    assert "the task 'cart-pole" in str(shown.exception)
    assert "drives robots and swings pendulums" in str(shown.exception)
    assert not (tmp_path / "x.html").exists()


def test_gymnasiums_pendulums_are_known():
    learner = CrossLearner("gymnasium-pendulums:2", seed=0)
    machines = family_of(learner, "two")["machines"]
    assert machines == [dict(task.context) for task in learner.tasks]


def test_a_formula_of_the_users_is_refused():
    kernel = PairKernel(lambda x, y: 1.0 + x @ y, 3)
    learner = CrossLearner("pendulums:2", kernel=kernel, seed=0)
    with pytest.raises(InputError, match="a formula of its author's"):
        family_of(learner, "mine")
