"""A packed model as one page that runs it inside a browser: docs/page.md.

The page holds the packed bytes in base64, the style and the scripts of `page/`, and nothing else. Its policy names the
style and the script by their digests, lets a worker start from what is in the page, and forbids every request.
"""

from base64 import b64encode
from hashlib import sha256
from html import escape

from ..pages import filled, source

WORKER = ("reader.js", "model.js", "worker.js")  # one script, in this order


def packed_page(packed: bytes, title: str) -> str:
    """The page of a packed LightRNN, `packed` being the whole file; the title is what people see above the text."""
    style, script = _source("style.css"), filled(_source("ui.js"))
    policy = {
        "default-src": "'none'",
        "script-src": _digest(script),
        "style-src": _digest(style),
        "worker-src": "blob:",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return filled(
        _source("page.html"),
        policy="; ".join(f"{name} {value}" for name, value in policy.items()),
        title=escape(title),
        style=style,
        model=b64encode(packed).decode(),
        worker="\n".join(map(_source, WORKER)),
        script=script,
    )


def _source(name: str) -> str:
    return source("packed", "page", name)


def _digest(content: str) -> str:
    """What a policy calls a piece of script or style that it allows."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
