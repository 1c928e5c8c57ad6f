"""The pages say what is: walks name functions that exist, examples run, links lead somewhere."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from helpers import ROOT
from lightrnn.registry import CELLS, KINDS, REFINEMENTS, SOLVERS

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
WALKS = re.findall(r"^\d+\. `([\w.]+)`$", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.M)


def find(dotted: str) -> object:
    """What a dotted name below lightrnn means."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["lightrnn", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"there is no {dotted}")


@pytest.mark.parametrize("dotted", WALKS)
def test_walks_name_functions(dotted: str) -> None:
    assert callable(find(dotted))


def test_there_are_four_walks() -> None:
    assert len(WALKS) > 25  # four walks of some seven steps
    with pytest.raises((AssertionError, AttributeError)):
        find("models.lightrnn.LightRNN.no_such")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http", "#")):
            path, _, anchor = target.partition("#")
            assert (page.parent / path).exists(), target
            if anchor:
                headings = re.findall(r"^#+ (.*)$", (page.parent / path).read_text(encoding="utf-8"), re.M)
                assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_examples_of_contributing_run() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    added = {"relu": CELLS, "dense": KINDS, "patient": SOLVERS, "by-frequency": REFINEMENTS}
    try:
        for example in re.findall(r"```python\n(.*?)```", text, re.S):
            exec(compile(example, "CONTRIBUTING.md", "exec"), {})
        assert all(name in registry for name, registry in added.items())
    finally:
        for name, registry in added.items():
            if name in registry:
                registry.remove(name)
