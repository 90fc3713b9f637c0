"""Reports: one page that needs nothing else, and says what is left out."""

import dataclasses
import re
import shutil
from html.parser import HTMLParser

import pytest

from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.errors import InputError
from crosslearning.figures import report as reporting
from crosslearning.figures.report import gather, report_page
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from crosslearning.runs import make_config, train

SMALL = {
    "method": "policy-gradient",
    "max_knots": 20,
    "iterations": 4,
    "log_every": 1,
    "evaluate_every": 2,
    "evaluation_trials": 3,
}


class Reading(HTMLParser):
    """Gathers what a page shows, and checks that every element is closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.images, self.links = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "img":
            self.images.append(given)
        self.links += [given[name] for name in ("href", "src") if name in given]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The reports of a run on maps and of one without, under a name that must be escaped."""
    place = tmp_path_factory.mktemp("runs")
    gathered = []
    for name, tasks in (("maps", "paper:r=1"), ("<b>&", "linear-quadratic")):
        train(place / name, make_config({**SMALL, "tasks": tasks}))
        gathered.append(gather(place / name, trials=4, samples=10))
    return gathered


def test_a_page_stands_alone(reports):
    page = report_page(reports[:1])
    read = Reading(page)
    # Learning curves, evaluations on the way, returns, paths, certificate.
    assert len(read.images) == 5
    assert all(image["alt"] for image in read.images)
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in read.links)
    assert "<script" not in page
    assert not re.search(r"url\(|@import", page)
    text = " ".join(read.words)
    for words in (
        "4 episodes each",
        "Files: certified.",
        "Pruning:",
        "crosslearning train --out maps-again --config config.toml",
        "crosslearning evaluate maps-again --trials 4 --seed 0",
        "crosslearning certify maps-again --samples 10 --seed 0",
        'tasks = "paper:r=1"',
    ):
        assert words in text


@pytest.mark.usefixtures("undrawn")
def test_runs_stand_beside_one_another(reports):
    read = Reading(report_page(reports))
    text = " ".join(read.words)
    assert "2 runs beside one another" in text
    assert "Differences" in text
    assert reports[1].run in text  # escaped, so that it is read as it is
    assert "is not a navigation task and has no map to draw" in text
    assert "Paths" not in " ".join(Reading(report_page(reports[1:])).words)


@pytest.mark.usefixtures("undrawn")
def test_a_name_is_shown_as_it_is(reports):
    name = "{{ 7 * 7 }}<script>alert(1)</script>{% if"
    named = dataclasses.replace(reports[0], run=name)
    page = report_page([named, reports[1]])
    assert "<script" not in page
    assert Reading(page).words.count(name) > 3


def test_what_was_measured_is_not_measured_again(reports, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("measured again")

    for name in ("evaluate", "certify"):
        monkeypatch.setattr(reporting, name, refused)
    again = gather(reports[0].run, trials=4, samples=10)
    assert again.evaluation == reports[0].evaluation
    assert report_page([again]) == report_page(reports[:1])
    with pytest.raises(AssertionError, match="measured again"):
        gather(reports[0].run, trials=5)


def test_what_cannot_be_told_is_left_out_with_a_sentence(reports, monkeypatch):
    def absent(*_, **__):
        raise InputError("the tasks <are> not here")

    for name in ("evaluate", "certify", "trajectories"):
        monkeypatch.setattr(reporting, name, absent)
    monkeypatch.setattr(reporting, "kept_certificate", lambda folder: None)
    monkeypatch.setattr(reporting.RunFolder, "read_metrics", lambda self: [])
    report = gather(reports[0].run, trials=6)
    assert set(report.left_out) == {"evaluation", "paths", "certificate"}
    text = " ".join(Reading(report_page([report])).words)
    assert text.count("Left out: the tasks <are> not here.") == 2
    assert "Left out: there are no metrics to draw yet." in text


@pytest.fixture
def copied(reports, tmp_path):
    """Return a copy of the run without maps, whose report is kept and signed."""
    shutil.copytree(reports[1].run, tmp_path / "copy")
    return tmp_path / "copy"


def made_again(run, monkeypatch):
    """Tell what a report measures again, and return its page."""
    seen = []
    for name in ("evaluate", "certify"):
        made = getattr(reporting, name)
        monkeypatch.setattr(
            reporting, name, lambda *a, n=name, m=made, **k: (seen.append(n), m(*a, **k))[1]
        )
    page = report_page([gather(run, trials=4, samples=10)])
    return page, list(dict.fromkeys(seen))


def test_a_copy_needs_nothing_new(copied, monkeypatch):
    page, seen = made_again(copied, monkeypatch)
    assert seen == []
    assert "files sound" in page


def test_an_exchanged_model_is_not_called_sound(copied, monkeypatch):
    arrays, about = read_tensors(copied / "model.safetensors", FILE_KIND, FILE_VERSION)
    about = {k: v for k, v in about.items() if k not in ("kind", "version")}
    arrays["rows"] = arrays["rows"] * 0.5
    write_tensors(copied / "model.safetensors", FILE_KIND, FILE_VERSION, arrays, about)
    page, seen = made_again(copied, monkeypatch)
    assert seen == ["evaluate", "certify"]
    assert "files sound" not in page
    assert "a check of the files failed" in page


@pytest.mark.parametrize("file", ["certificate.txt", "certificate.json", "certificate.signature"])
def test_a_forged_certificate_is_not_repeated(copied, file, monkeypatch):
    path = copied / "certificate" / file
    words = path.read_text().replace("certified", "certified by Trent")
    path.write_text(words if "Trent" in words else "Trent")
    page, seen = made_again(copied, monkeypatch)
    assert seen == ["certify"]
    assert "Trent" not in page


def test_a_strangers_measurements_are_not_repeated(copied, monkeypatch):
    kept = copied / "report" / "evaluation.json"
    kept.write_text(kept.read_text().replace('"value": ', '"value": 1'))
    assert made_again(copied, monkeypatch)[1] == ["evaluate"]


def test_another_users_report_is_made_again(copied, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert made_again(copied, monkeypatch)[1] == ["evaluate", "certify"]


def test_a_report_runs_no_script(reports):
    page = report_page(reports)
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"" in page


def test_no_run_is_refused():
    with pytest.raises(InputError, match="there is no run to report on"):
        report_page([])
