"""A hook of MkDocs: lets the links of files that lie beside docs/ work on the site, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_SNIPPET = re.compile(r'^--8<-- "(\w+\.md)"\s*$')


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Return the page; of one that is a file beside docs/, that file, with links from within."""
    found = _SNIPPET.match(markdown)
    if found is None:
        return markdown
    text = Path(config.config_file_path).with_name(found[1]).read_text(encoding="utf-8")
    return text.replace("](docs/", "](")
