"""A hook of MkDocs: puts the playground beside the documentation when the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crosslearning.playground import write_page


def on_post_build(config: Any, **_: Any) -> None:
    """Write the page that docs/getting-started/playground.md shows in a frame."""
    write_page(Path(config.site_dir) / "playground-page.html")
