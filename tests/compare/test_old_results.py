"""Results of version 0.1.0, whose runs lie in RESULTS/cells, are still read, and gone on with."""

from pathlib import Path

from conftest import Call
from lightrnn.text.corpus import Corpus


def test_runs_of_before_are_not_repeated(call: Call, tiny: Corpus, tmp_path: Path) -> None:
    grid = (
        'epochs = 0.1\nmodel = [{ name = "KN-2", kind = "ngram", order = 2 }]\n'
        f'corpus = [{{ name = "tiny", data = "{tiny.path}" }}]\n'
    )
    (tmp_path / "grid.toml").write_text(grid, encoding="utf-8")
    first = call("compare", "grid.toml", "-o", "results", "--no-plots")
    assert "run 1 of 1: tiny, KN-2" in first.err
    assert [path.name for path in (tmp_path / "results" / "runs").iterdir()] == ["tiny--KN-2--0.json"]
    (tmp_path / "results" / "runs").rename(tmp_path / "results" / "cells")
    again = call("compare", "grid.toml", "-o", "results", "--no-plots")
    assert again.out == first.out
    assert again.err == "1 of 1 runs finished; tables in results/tables.md\n"

    grown = grid.replace("[{ name", '[{ name = "KN-3", kind = "ngram", order = 3 }, { name', 1)
    (tmp_path / "grid.toml").write_text(grown, encoding="utf-8")
    assert "2 of 2 runs finished" in call("compare", "grid.toml", "-o", "results", "--no-plots").err
    assert "2 of 2 runs finished" in call("compare", "grid.toml", "-o", "results", "--no-plots", "--tables-only").err
    assert not (tmp_path / "results" / "runs").exists()
