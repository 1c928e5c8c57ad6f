"""Figures of a training."""

from pathlib import Path

from helpers import CPU, ROUNDS
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.figures import training_figures


def test_figures_show_every_validation(tiny: Corpus, tmp_path: Path) -> None:
    bootstrap.train(tiny, ROUNDS, tmp_path / "m", device=CPU)
    paths = training_figures(tmp_path / "m")
    assert [path.name for path in paths] == ["perplexity.png", "loss-parts.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
