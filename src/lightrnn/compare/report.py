"""What is made of a comparison: RESULTS/tables.md, tables.csv and the plots, of all runs that are finished."""

from dataclasses import replace

from ..files import atomic_file
from ..outputs import locked, sweep
from .grid import Grid, slug
from .plots import plots
from .runs import Comparison
from .tables import Layout, ModelRow, csv_text, markdown


def layout_of(grid: Grid) -> Layout:
    """What the tables of a grid are to hold; models that differ in size alone are compared by size."""
    rows = []
    for entry in grid.models:
        if entry.recipe is None:
            rows.append(ModelRow(entry.name, "ngram"))
        else:
            network = entry.recipe.model
            rest = replace(entry.recipe, model=replace(network, hidden_size=1, embedding_size=0, alone=0))
            sizes = network.input_size, network.hidden_size, network.alone
            rows.append(ModelRow(entry.name, network.model, *sizes, (rest, entry.teacher)))
    return Layout(tuple(entry.name for entry in grid.corpora), tuple(rows), grid.target)


def write_report(comparison: Comparison, with_plots: bool, command: str) -> None:
    """The tables and plots of all finished runs; `command`: what makes them."""
    grid, folder = comparison.grid, comparison.results
    layout = layout_of(grid)
    with locked(folder / "tables", wait=True):
        runs = comparison.finished()
        for names in ("tables.*", "*.png"):
            sweep(folder, names)
        for name, text in (
            ("tables.md", markdown(layout, runs, command, len(grid.runs()))),
            ("tables.csv", csv_text(layout, runs)),
        ):
            with atomic_file(folder / name) as file:
                file.write(text.encode(errors="backslashreplace"))  # the command may name any path
        if with_plots:
            plots(layout, runs, folder, slug)
