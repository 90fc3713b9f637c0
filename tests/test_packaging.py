"""What the project says of itself in several files agrees: version, addresses, tools."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import crosslearning

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REPOSITORY = PYPROJECT["project"]["urls"]["Repository"]
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def citation(field):
    return re.search(rf'^{field}: "?([^"\n]+)"?$', text("CITATION.cff"), re.MULTILINE)[1]


def test_the_version_stands_in_one_place_and_all_others_agree():
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "src/crosslearning/__init__.py"
    version, date = RELEASE.search(text("CHANGELOG.md")).groups()
    assert version == crosslearning.__version__ == citation("version")
    assert date == citation("date-released")
    shown = subprocess.run(
        [sys.executable, "-m", "crosslearning", "--version"], capture_output=True, check=True
    )
    assert shown.stdout.decode().strip() == f"crosslearning {version}"


def test_releases_in_the_changelog_are_in_order_and_nothing_else_is_a_release():
    log = text("CHANGELOG.md")
    releases = RELEASE.findall(log)
    versions = [tuple(map(int, version.split("."))) for version, _ in releases]
    dates = [date for _, date in releases]
    assert versions == sorted(set(versions), reverse=True)
    assert dates == sorted(dates, reverse=True)
    headings = re.findall(r"^## (.*)$", log, re.MULTILINE)
    assert headings == ["[Unreleased]", *(f"[{version}] - {date}" for version, date in releases)]


@pytest.mark.parametrize(
    "name",
    [
        "CITATION.cff",
        "SECURITY.md",
        "mkdocs.yml",
        "pyproject.toml",
        ".github/ISSUE_TEMPLATE/config.yml",
    ],
)
def test_addresses_lead_to_one_repository(name):
    repository = REPOSITORY.removeprefix("https://github.com/")
    hosts = r"https://(?:github\.com|raw\.githubusercontent\.com)/([\w-]+/[\w-]+)"
    sites = re.findall(r"https://([\w-]+)\.github\.io/([\w-]+)", text(name))
    assert {*re.findall(hosts, text(name)), *map("/".join, sites)} == {repository}


def test_on_pypi_every_link_and_picture_of_the_readme_is_absolute():
    page = text("README.md")
    for rule in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"][
        "substitutions"
    ]:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", page)
    links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)#][^)]*)\)", page)
    assert pictures
    assert links
    assert [target for target in pictures + links if not target.startswith("https://")] == []
    for target in pictures + links:
        _, ours, path = target.partition("/v$HFPR_VERSION/")
        assert not ours or (ROOT / path.partition("#")[0]).exists(), target
        assert (target in pictures) == target.startswith("https://raw.") or not ours


@pytest.mark.parametrize(
    ("package", "repository", "prefix"),
    [("ruff", "ruff-pre-commit", "v"), ("check-jsonschema", "check-jsonschema", "")],
)
def test_hooks_have_the_versions_that_make_lint_uses(package, repository, prefix):
    pinned = re.search(rf"^{package}==(\S+)", text("constraints.txt"), re.MULTILINE)[1]
    hook = re.search(rf"/{repository}\n +rev: (\S+)", text(".pre-commit-config.yaml"))[1]
    assert hook == prefix + pinned


def test_workflows_test_every_version_that_the_classifiers_name():
    prefix = "Programming Language :: Python :: 3."
    named = [
        f"3.{classifier.removeprefix(prefix)}"
        for classifier in PYPROJECT["project"]["classifiers"]
        if classifier.startswith(prefix)
    ]
    assert named
    listed = ", ".join(f'"{version}"' for version in named)
    assert f"python: [{listed}]" in text(".github/workflows/tests.yml")
