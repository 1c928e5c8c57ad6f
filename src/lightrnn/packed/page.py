"""A packed model as one page that runs it inside a browser: docs/page.md.

The page holds the packed bytes in base64, the style and the scripts of `page/`, and nothing else. Its policy names the
style and the script by their digests, lets a worker start from what is in the page, and forbids every request.
"""

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib import resources

WORKER = ("reader.js", "model.js", "worker.js")  # one script, in this order


def packed_page(packed: bytes, title: str) -> str:
    """The page of a packed LightRNN, `packed` being the whole file; the title is what people see above the text."""
    style, script = _source("style.css"), _source("ui.js")
    policy = {
        "default-src": "'none'",
        "script-src": _digest(script),
        "style-src": _digest(style),
        "worker-src": "blob:",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    fields = {
        "policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "title": escape(title),
        "style": style,
        "model": b64encode(packed).decode(),
        "worker": "\n".join(map(_source, WORKER)),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda field: fields[field[1]], _source("page.html"))


def _source(name: str) -> str:
    return (resources.files("lightrnn") / "packed" / "page" / name).read_text(encoding="utf-8")


def _digest(source: str) -> str:
    """What a policy calls a piece of script or style that it allows."""
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
