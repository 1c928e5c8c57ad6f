"""The examples run, on a little text: every end of the transformer, and runs that are kept are not made again."""

import json
import math
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from lightrnn.text.corpus import Corpus


@pytest.fixture(scope="module")
def transformer() -> Any:
    spec = spec_from_file_location("transformer", ROOT / "examples" / "transformer.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_end_of_the_transformer_learns(
    transformer: Any, tiny: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--width", "16", "--layers", "1", "--context", "16", "--batch", "8", "--alone", "10"]
    options = [*sizes, "--epochs", "1", "--rate", "0.01", "--out"]
    for end in transformer.ENDS:
        monkeypatch.setattr(sys, "argv", ["transformer.py", str(tiny.path), "--end", end, *options, str(tmp_path)])
        transformer.main()
    runs = {path.name.split("-")[0]: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert set(runs) == set(transformer.ENDS)
    counts = tiny.vocabulary.counts / tiny.vocabulary.counts.sum()
    unigram = math.exp(-sum(math.log(counts[word]) for word in tiny.split("test")) / len(tiny.split("test")))
    assert all(run["perplexity"] < unigram for run in runs.values())
    assert runs["light"]["parameters of the ends"] == runs["random"]["parameters of the ends"]
    assert capsys.readouterr().out.count("| light |") == 2  # printed when it was made, and with the one after it
    monkeypatch.setattr(transformer, "run", lambda _: pytest.fail("a run that is there was made again"))
    transformer.main()
