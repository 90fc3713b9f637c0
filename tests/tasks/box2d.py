"""Box2D has no wheels for the newest Python, and its family is not tested without it."""

import importlib.util

import pytest

INSTALLED = importlib.util.find_spec("Box2D") is not None
needs_box2d = pytest.mark.skipif(not INSTALLED, reason="the extra 'box2d' is not installed")
