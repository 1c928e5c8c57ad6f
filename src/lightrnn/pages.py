"""Pages of one file each that need nothing else: their sources are files of the package with {{fields}} in them."""

import re
from importlib import resources


def source(*path: str) -> str:
    """A file of the package, by its folders and its name."""
    return resources.files("lightrnn").joinpath(*path).read_text(encoding="utf-8")


def filled(page: str, **fields: str) -> str:
    """A page with its fields filled in, all at once: braces within a field are text. {{common}} is what all scripts
    share."""
    known = {"common": source("pages.js").rstrip(), **fields}
    return re.sub(r"\{\{(\w+)\}\}", lambda field: known[field[1]], page)
