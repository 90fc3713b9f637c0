"""The page as a file: whole in itself, small, and of runs that it can play."""

import base64
import hashlib
import json
import re
import webbrowser

import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli
from crosslearning.errors import InputError
from crosslearning.playground import page as playground
from crosslearning.playground import write_page
from crosslearning.playground.families import family_of, scene_of
from crosslearning.playground.page import page_data, page_text
from crosslearning.rkhs import PairKernel
from crosslearning.tasks import Navigation

runner = CliRunner()
#: Names that would be more than text in a page that is not careful.
HOSTILE = (
    "{{scripts}}<img src=x onerror=alert(1)>",
    "{{data}}{{policy}}",
    "</script><!-- x",
    "<!--<script>",
    "&lt;\u2028\u2029",
)


def test_the_page_is_one_small_file_that_asks_for_nothing(tmp_path):
    path = write_page(tmp_path / "new" / "page.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 1_000_000
    assert "{{" not in text
    assert re.findall(r"https?://|\bsrc=|\bimport\b *[({]|fetch\(|XMLHttpRequest", text) == []
    # Every script is there, once, and none ends before its end.
    shipped = sorted(path.name for path in playground.ASSETS.glob("*.js"))
    assert sorted(re.findall(r'<script id="([^"]+)">\n.', text)) == shipped
    assert text.count("</script>") == len(shipped) + 1


@pytest.mark.parametrize("title", HOSTILE)
def test_a_name_is_only_data(title):
    page = page_text([{**page_data()["drive"][0], "title": title}])
    held = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    assert not set("<>&\u2028\u2029") & set(held)
    assert json.loads(held)["drive"][0]["title"] == title
    # Around the data the page is that of any other name.
    plain = page_text([{**page_data()["drive"][0], "title": "x"}])
    around = [re.sub(r'(?s)(id="data">).*?(</script>)', r"\1\2", one) for one in (page, plain)]
    assert around[0] == around[1]


def test_only_the_scripts_of_the_library_may_run():
    page = page_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    digests = set(re.findall(r"'sha256-([^']*)'", policy))
    texts = re.findall(r'(?s)<script id="[^"]+">(.*?)</script>', page)
    made = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts}
    assert digests == made
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")


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
    with pytest.raises(InputError, match="a user-defined kernel"):
        family_of(learner, "mine")


def test_the_page_shows_one_of_the_goals_that_are_redrawn():
    redrawn = Navigation(goals="grid", goal_choice="redrawn")
    (x, y), *_ = redrawn.goals
    assert scene_of(redrawn)["goals"] == [{"x": x, "y": y}]
    assert len(scene_of(redrawn.replace(goal_choice="ordered"))["goals"]) == len(redrawn.goals)
