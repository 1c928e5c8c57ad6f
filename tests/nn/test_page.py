"""The page on layers says what is: its Python runs, and its sizes are those of layers."""

import re
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from helpers import ROOT, printed, run_apart
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable

PAGE = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it saves files
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    first, saved, compressed = blocks
    printed(run_apart(script=first + saved))
    printed(run_apart(script=compressed))


def parameters(*layers: nn.Module) -> int:
    return sum(parameter.numel() for parameter in nn.ModuleList(layers).parameters())


@pytest.mark.parametrize("alone", [5000, 0])
def test_sizes(alone: int) -> None:
    table = WordTable.from_counts(np.arange(33_278), alone=alone)
    embedding = LightEmbedding(table, 128)
    assert f"{parameters(embedding, LightSoftmax(table, 128, tied=embedding)):,}" in PAGE
    assert f"{parameters(nn.Embedding(33_278, 128), nn.Linear(128, 33_278)):,}" in PAGE
