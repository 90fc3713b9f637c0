"""A hook of MkDocs: adapts the links of files beside docs/, and the roles in docstrings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_ROLE = re.compile(r":(?:attr|class|func|meth|mod|data|exc):<code>~?")
_SNIPPET = re.compile(r'^--8<-- "(\w+\.md)"\s*$')


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page; of one that is a file beside docs/, that file, with links from within."""
    found = _SNIPPET.match(markdown)
    if found is None:
        return markdown if page.file.src_uri.startswith("notebooks/") else _as_pages(markdown)
    text = Path(config.config_file_path).with_name(found[1]).read_text(encoding="utf-8")
    return _as_pages(text.replace("](docs/", "]("))


def _as_pages(markdown: str) -> str:
    """Return a page whose links to notebooks lead to the pages that show them."""
    return markdown.replace(".ipynb)", ".md)")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with the roles of docstrings (``:meth:`learn```) as plain code."""
    return _ROLE.sub("<code>", html)
