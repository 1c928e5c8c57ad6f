"""The plots of a training run."""

from pathlib import Path

from ..config import ModelConfig
from ..errors import LightRNNError
from ..models.folder import METRICS, read_config
from ..models.kind import kind_of
from ..plot import Plot, check_matplotlib
from .run import read_metrics


def training_figures(folder: Path) -> list[Path]:
    """Draw MODEL/perplexity.png (the paper's Figure 4: refinements marked) and MODEL/loss-parts.png; their paths."""
    check_matplotlib()
    lines = read_metrics(folder)
    validations = [line for line in lines if "valid_perplexity" in line]
    if not validations:
        return []
    refinements = [line["epoch"] for line in lines if "refinement" in line]
    epochs = [line["epoch"] for line in validations]
    perplexity = Plot("epochs", "perplexity", refinements)
    perplexity.axes.plot(epochs, [line["valid_perplexity"] for line in validations], "o-", label="validation")
    perplexity.axes.plot(epochs, [line["train_perplexity"] for line in validations], ".--", label="training", alpha=0.6)
    perplexity.axes.set_yscale("log")
    parts = Plot("epochs", "validation loss, nats a word", refinements)
    config = ModelConfig.from_dict(read_config(folder)["model"], str(folder))
    names = kind_of(config).parts(config)
    if any(len(line["valid_parts"]) != len(names) for line in validations):
        raise LightRNNError(f"{folder / METRICS} is not of this model, of {len(names)} parts; remove it")
    for s, name in enumerate(names):
        parts.axes.plot(epochs, [line["valid_parts"][s] for line in validations], "o-", label=name)
    return [perplexity.save(folder / "perplexity.png"), parts.save(folder / "loss-parts.png")]
