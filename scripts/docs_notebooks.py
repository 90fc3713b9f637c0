"""A hook of MkDocs: shows the notebooks of docs/notebooks as pages, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def page_of(notebook: Path) -> str:
    """Return a notebook as Markdown: its texts, its code, and what the cells printed."""
    title, *cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = ["".join(title["source"]), f"This page is [a notebook]({notebook.name})."]
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        if printed := "".join(
            line for output in cell.get("outputs", []) for line in output.get("text", [])
        ):
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add a page beside every notebook."""
    for notebook in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        uri = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, uri, content=page_of(notebook)))
    return files
