"""A plot as all of ours are drawn. matplotlib, an extra, is imported when one is."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import LightRNNError
from .files import atomic_file

BESIDE = 6  # labels of a plot, beyond which they stand beside it and not in it


def check_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise LightRNNError("plots need matplotlib; install it with: pip install 'lightrnn[plots]'")


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
        from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

        if self.axes.get_yscale() == "log":
            low, high = self.axes.get_ylim()
            round_numbers = MaxNLocator(7, steps=[1, 2, 2.5, 5, 10])
            self.axes.yaxis.set_major_locator(round_numbers if high < 10 * low else LogLocator(subs=(1, 2, 5)))
            self.axes.yaxis.set_major_formatter(ScalarFormatter())
            self.axes.yaxis.set_minor_locator(NullLocator())
        if len(self.axes.get_legend_handles_labels()[1]) > BESIDE:
            self.figure.set_figwidth(9.5)
            self.axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        else:
            self.axes.legend(frameon=False)
        with atomic_file(path) as file:
            self.figure.savefig(file, dpi=150, format="png")
        return path
