"""HTML pages: templates filled in one pass, data that stays data, and a policy that says so.

Names of runs and tasks come from files that anybody may have written. They reach a page either as
text, escaped, or inside :func:`data_script`, and the page's content security policy allows only
the scripts that the library itself put there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_FIELD = re.compile(r"\{\{(\w+)\}\}")
#: What could end a script or begin a comment in it, and what old JavaScript takes for line ends.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with every ``{{name}}`` replaced; what is filled in is not looked at."""
    return _FIELD.sub(lambda field: parts[field[1]], template)


def data_script(identifier: str, data: Any) -> str:
    """Return the element that holds plain data as JSON, whatever texts are among them."""
    text = json.dumps(data, allow_nan=False).translate(_UNSAFE)
    return f'<script type="application/json" id="{identifier}">{text}</script>'


def security_policy(scripts: Sequence[str] = (), **more: str) -> str:
    """Return the element that allows these scripts, styles, inlined pictures and nothing else.

    Parameters
    ----------
    scripts : sequence of str
        The texts of the page's own scripts, exactly as they stand between their tags.
    **more
        Further directives, such as ``worker_src="blob:"``.
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
