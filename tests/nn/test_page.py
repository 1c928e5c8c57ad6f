"""The page on layers says what is: its Python runs, and its sizes are those of layers."""

import re

import numpy as np
import pytest
from torch import nn

from helpers import ROOT, printed, run_apart
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable

PAGE = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8")


def test_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        printed(run_apart(script=block))


def parameters(*layers: nn.Module) -> int:
    return sum(parameter.numel() for parameter in nn.ModuleList(layers).parameters())


@pytest.mark.parametrize("alone", [5000, 0])
def test_sizes(alone: int) -> None:
    table = WordTable.from_counts(np.arange(33_278), alone=alone)
    embedding = LightEmbedding(table, 128)
    assert f"{parameters(embedding, LightSoftmax(table, 128, tied=embedding)):,}" in PAGE
    assert f"{parameters(nn.Embedding(33_278, 128), nn.Linear(128, 33_278)):,}" in PAGE
