"""Run the notebooks of docs/notebooks in place, without Jupyter, and keep what they print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Run every notebook in an empty folder."""
    for path in sorted(Path(__file__).parents[1].glob("docs/notebooks/*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        namespace: dict[str, Any] = {"__name__": "__main__"}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for cell in notebook["cells"]:
                if cell["cell_type"] != "code":
                    continue
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
                lines = printed.getvalue().splitlines(keepends=True)
                stream = {"name": "stdout", "output_type": "stream", "text": lines}
                cell["outputs"] = [stream] if lines else []
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
