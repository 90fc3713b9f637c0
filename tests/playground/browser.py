"""The page in a real browser, watched."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.browser import CHROMIUM

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine; scripts/install_chromium.sh installs it"
)


class Watched:
    """A page in a browser, with all that it asked for and complained about."""

    def __init__(self, browser, path, fragment="", **options):
        options = {"viewport": {"width": 960, "height": 640}, **options}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(f"{path.as_uri()}{fragment}")
        # Where things are on the screen is known once they were drawn, which a slow machine does
        # only after the page has loaded.
        self.page.evaluate(
            "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
        )

    def wait_until(self, expression, seconds=120):
        """Wait until an expression is true; the page itself allows no code from strings."""
        for _ in range(int(seconds * 20)):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{expression} was not true within {seconds} s")

    def paths(self):
        """Return where all policies drive in the present scene."""
        self.wait_until("!playground.view.stale")
        return self.page.evaluate("playground.view.paths.map(p => p && p.map(s => [s.x, s.y]))")

    def at(self, x, y):
        """Return where a place on the map is on the screen."""
        return self.page.evaluate(
            """([x, y]) => { const box = playground.view.canvas.getBoundingClientRect();
            const [px, py] = playground.view.view.to(x, y);
            return [px + box.left, py + box.top] }""",
            [x, y],
        )

    def drag(self, start, end):
        """Drag from one place on the map to another."""
        mouse = self.page.mouse
        mouse.move(*self.at(*start))
        mouse.down()
        mouse.move(*self.at(*end), steps=6)
        mouse.up()

    def swipe(self, start, end):
        """Draw a finger over the screen, from one place on it to another."""
        touch = self.context.new_cdp_session(self.page)

        def send(kind, *places):
            points = [{"x": x, "y": y} for x, y in places]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        send("touchStart", start)
        for share in np.linspace(0.1, 1.0, 10):
            send("touchMove", tuple((1 - share) * np.array(start) + share * np.array(end)))
        send("touchEnd")
