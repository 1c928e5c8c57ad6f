"""Plots, among them those of a training run: matplotlib, an extra, is imported when one is drawn."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..config import ModelConfig
from ..errors import LightRNNError
from ..files import atomic_file
from ..models.folder import METRICS, read_config
from ..models.kind import kind_of
from .run import read_metrics


def check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise LightRNNError("plots need matplotlib; install it with: pip install 'lightrnn[plots]'")


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


BESIDE = 6  # labels of a plot, beyond which they stand beside it and not in it


class Plot:
    """One pair of axes, with the refinements, if there are any, as dotted lines."""

    def __init__(self, x: str, y: str, refinements: Sequence[float] = ()) -> None:
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(7, 4.2), layout="constrained")
        self.axes: Any = self.figure.subplots()
        self.axes.set(xlabel=x, ylabel=y)
        self.axes.grid(alpha=0.25)
        self.axes.spines[["top", "right"]].set_visible(False)
        for index, epoch in enumerate(refinements):
            self.axes.axvline(epoch, color="grey", linestyle=":", label="table refined" if index == 0 else None)

    def save(self, path: Path) -> Path:
        from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

        if self.axes.get_yscale() == "log":
            self.axes.yaxis.set_major_formatter(ScalarFormatter())
            self.axes.yaxis.set_minor_formatter(ScalarFormatter())
            if len(self.axes.get_yticks(minor=True)) > 12:
                self.axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                self.axes.yaxis.set_minor_formatter(NullFormatter())
        if len(self.axes.get_legend_handles_labels()[1]) > BESIDE:
            self.figure.set_figwidth(9.5)
            self.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        else:
            self.axes.legend(frameon=False)
        with atomic_file(path) as file:
            self.figure.savefig(file, dpi=150, format="png")
        return path
