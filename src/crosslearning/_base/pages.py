"""HTML pages: templates, embedded data, and a content security policy.

Names of runs and tasks come from files that anyone may have written. They reach a page as escaped
text or inside :func:`data_script`; the policy allows only the library's own scripts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FIELD = re.compile(r"\{\{(\w+)\}\}")
#: Characters that could end a script or begin a comment, and JavaScript's further line ends.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with every ``{{name}}`` replaced, in one pass."""
    return _FIELD.sub(lambda field: parts[field[1]], template)


def data_script(identifier: str, data: Any) -> str:
    """Return the script element that holds plain data as JSON."""
    text = json.dumps(data, allow_nan=False).translate(_UNSAFE)
    return f'<script type="application/json" id="{identifier}">{text}</script>'


def security_policy(scripts: Sequence[str] = (), **more: str) -> str:
    """Return the meta element that allows these script texts, styles, inline images, nothing else.

    ``more`` are further directives, such as ``worker_src="blob:"``.
    """
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    directives = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        **({"script-src": " ".join(f"'sha256-{one}'" for one in digests)} if digests else {}),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    content = "; ".join(f"{name} {value}" for name, value in directives.items())
    return f'<meta http-equiv="Content-Security-Policy" content="{content}">'
