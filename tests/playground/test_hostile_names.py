"""Hostile names of runs and tasks in a real browser: they are shown, and nothing runs."""

import pytest
from benchmarks.browser import chromium

from crosslearning.playground import write_page
from crosslearning.playground.page import page_data
from tests.playground.browser import Watched, needs_chromium
from tests.playground.test_page import HOSTILE

pytestmark = needs_chromium

NAMES = (
    *HOSTILE,
    "<img src=x onerror=\"document.title='run'\">",
    "</script><script>document.title='run'</script>",
    "<svg onload=\"document.title='run'\">",
    "{{scripts}}<img src=x onerror=\"document.title='run'\">",
    "<!--<script>document.title='run'</script>",
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def hostile_families(name):
    """Return the families that ship, with a name in every place that has one."""
    families = []
    for kind in ("drive", "swing"):
        (family,) = page_data()[kind]
        policies = [{**one, "name": name} for one in family["policies"]]
        changed = {**family, "title": name, "policies": policies}
        if "scenes" in family:
            changed["scenes"] = [{**one, "name": name} for one in family["scenes"]]
        families.append(changed)
    return families


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_shown_and_runs_nothing(name, browser, tmp_path):
    path = write_page(tmp_path / "page.html", hostile_families(name))
    page = Watched(browser, path)
    page.wait_until("window.playground && !playground.view.stale")
    assert page.page.title() == "crosslearning playground"
    assert name in page.page.inner_text("body") or page.page.evaluate(
        "name => [...document.querySelectorAll('*')].some(e => e.children.length === 0 && "
        "e.textContent.includes(name))",
        name,
    )
    assert page.page.evaluate("document.querySelectorAll('img, svg[onload]').length") == 0
    assert page.complaints == []
    assert [u for u in page.requests if not u.startswith(("file:", "blob:", "data:"))] == []
    page.context.close()
