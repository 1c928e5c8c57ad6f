"""lightrnn table: rows, columns and words of the table, straight from the codes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers import SMALL, Call, made_up_vocabulary, members, printed, refused
from lightrnn.config import ModelConfig
from lightrnn.models.checkpoint import save_model
from lightrnn.models.folder import load_table, load_vocabulary
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.explorer import rows_and_columns
from lightrnn.table.word_table import WordTable
from lightrnn.text.vocabulary import Vocabulary


@pytest.fixture(scope="module", params=[2, 3], ids=["K=2", "K=3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of 40 words; some would be markup or emoji to a careless printer."""
    vocabulary = made_up_vocabulary(["london", ":heart:", "[bold]", *(f"w{i}" for i in range(35))])
    folder = tmp_path_factory.mktemp("explorer") / "model"
    network = LightRNN(
        ModelConfig(hidden_size=4, components=request.param), WordTable.random(40, request.param, seed=1)
    )
    save_model(folder, network, vocabulary, {})
    return folder


@pytest.fixture
def read(model: Path) -> tuple[WordTable, Vocabulary]:
    vocabulary = load_vocabulary(model)
    return load_table(model, vocabulary), vocabulary


Shown = Callable[..., str]


@pytest.fixture
def shown(call: Call, model: Path) -> Shown:
    return lambda *options: printed(call("table", model, *options))


@pytest.mark.parametrize("kind", ["row", "column"])
def test_one_row_or_column(shown: Shown, read: tuple[WordTable, Vocabulary], kind: str) -> None:
    table, vocabulary = read
    wanted = members(table, vocabulary, **{kind: 1})
    tokens = sum(int(vocabulary.counts[vocabulary.ids[word]]) for word in wanted)
    assert shown(f"--{kind}", 1, "--words", 100) == f"{kind} 1  {tokens:,} tokens  {'  '.join(wanted)}\n"
    assert shown(f"--{kind}", 1, "--words", 2).endswith(f"  {wanted[0]}  {wanted[1]}  … {len(wanted) - 2} more\n")
    facts = json.loads(shown(f"--{kind}", 1, "--words", 2, "--json"))
    assert facts["table_shape"] == list(table.shape)
    assert facts["shown"] == [{kind: 1, "tokens": tokens, "words": wanted[:2], "more": len(wanted) - 2}]


@pytest.mark.parametrize("word", ["london", ":heart:", "[bold]", "</s>"])
def test_a_word_with_its_mates(shown: Shown, read: tuple[WordTable, Vocabulary], word: str) -> None:
    table, vocabulary = read
    w = vocabulary.ids[word]
    _, columns = rows_and_columns(table)
    row, column = divmod(int(table.places[w]), columns)
    first, *lines = shown("--word", word, "--words", 100).splitlines()
    place = ", ".join(str(code) for code in table.codes[w])
    assert (
        first == f"{word}: place ({place}), {vocabulary.counts[w]:,} occurrence{'s' * int(vocabulary.counts[w] != 1)}"
    )
    for line, place in zip(lines, ({"row": row}, {"column": column}), strict=True):
        ((kind, index),) = place.items()
        mates = [mate for mate in members(table, vocabulary, **place) if mate != word]
        name, _, listed = re.split(r"  +", line, maxsplit=2)
        assert name == f"{kind} {index}"
        assert listed.split("  ") == mates
    facts = json.loads(shown("--word", word, "--words", 1, "--json"))
    assert (facts["word"], facts["place"], facts["count"]) == (word, table.codes[w].tolist(), vocabulary.counts[w])
    assert [next(iter(line.items())) for line in facts["shown"]] == [("row", row), ("column", column)]


def test_a_packed_file_shows_the_same(call: Call, shown: Shown, model: Path) -> None:
    """Its words have another order, and with it words of one count."""
    assert call("pack", model, "-o", "words.lightrnn").code == 0
    options = ("--word", "london", "--words", "100", "--json")
    found, wanted = (json.loads(text) for text in (printed(call("table", "words.lightrnn", *options)), shown(*options)))
    assert (found["place"], found["count"]) == (wanted["place"], wanted["count"])
    for line, other in zip(found["shown"], wanted["shown"], strict=True):
        assert line | {"words": sorted(line["words"])} == other | {"words": sorted(other["words"])}


def test_what_the_table_cannot_show(call: Call, model: Path) -> None:
    assert "--data cannot be used together" in refused(call("table", model, "--row", 5, "--data", "nowhere"))
    assert "or a packed file" in refused(call("table", "nowhere"))


def test_a_word_is_cleaned_as_text_is(shown: Shown) -> None:
    assert shown("--word", "LONDON").startswith("london: ")


def test_rows_by_use(shown: Shown, read: tuple[WordTable, Vocabulary]) -> None:
    table, vocabulary = read
    lines = json.loads(shown("--count", 3, "--words", 2, "--json"))["shown"]
    use = np.bincount(table.codes[:, 0], weights=vocabulary.counts)
    assert [line["tokens"] for line in lines] == sorted(use, reverse=True)[:3]
    assert all(line["words"] == members(table, vocabulary, row=line["row"])[:2] for line in lines)
    assert len(shown().splitlines()) == min(10, table.shape[0])


def test_what_cannot_be_shown_is_told(
    call: Call, model: Path, read: tuple[WordTable, Vocabulary], tmp_path: Path
) -> None:
    rows, columns = rows_and_columns(read[0])
    for wrong in (-1, rows):
        told = refused(call("table", model, "--row", wrong, "--html", "page.html"))
        assert f"--row must be from 0 to {rows - 1} in this table, got {wrong}" in told
    told = refused(call("table", model, "--column", columns))
    assert f"--column must be from 0 to {columns - 1} in this table, got {columns}" in told
    assert "--word: 'nowhere' is not among the 40 words" in refused(call("table", model, "--word", "nowhere"))
    assert "give one of them" in refused(call("table", model, "--word", "london", "--row", 1))
    assert not any(tmp_path.iterdir())


def test_the_program_writes_the_page(call: Call, model: Path, tmp_path: Path) -> None:
    result = call("table", model, "--count", "1", "--html", "page.html")
    assert printed(result).startswith("row ")
    assert "page.html" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data[1])["title"] == "Word table of model"


WORDS = [f"w{i:02}" for i in range(100)]


def model_of_a_hundred(call: Call, folder: Path, valid: list[str]) -> None:
    """A model folder and its data, of a hundred words in the order of the table; a validation text of some of them."""
    (folder / "train.txt").write_text((" ".join(WORDS) + "\n") * 20, encoding="utf-8")
    (folder / "valid.txt").write_text((" ".join(valid) + "\n") * 10, encoding="utf-8")
    assert call("prepare", "train.txt", "--valid", "valid.txt", "-o", "data").code == 0
    table = [f"{word}\t{i // 11}\t{i % 11}\n" for i, word in enumerate(["</s>", "<unk>", *WORDS])]
    (folder / "table.tsv").write_text(
        "".join(["# lightrnn table, shape 10x11\nword\trow\tcolumn\n", *table]), encoding="utf-8"
    )
    printed(call("train", "data", "--table", "table.tsv", "-o", "model", *SMALL))


def test_rows_that_cannot_be_ranked_are_not_shown(call: Call, tmp_path: Path) -> None:
    """A validation text with but a few of the words: most rows have too little in it."""
    model_of_a_hundred(call, tmp_path, WORDS[:36])
    facts = json.loads(call("table", "model", "--data", "data", "--count", "12", "--json").out)
    assert {line["row"] for line in facts["shown"]} == {0, 1, 2}
    assert facts["unranked"] == 7
    shown = call("table", "model", "--data", "data", "--count", "12").out
    assert len([line for line in shown.splitlines() if line.startswith("row ")]) == 3
    assert "7 of 10 rows could not be ranked: fewer than 8 of their words" in shown
    assert facts["text"] == "valid"
    assert "could not be ranked" not in call("table", "model").out


def test_rows_of_rare_words_are_ranked_by_the_training_text(call: Call, tmp_path: Path) -> None:
    model_of_a_hundred(call, tmp_path, WORDS[::30])
    facts = json.loads(call("table", "model", "--data", "data", "--json").out)
    assert facts["text"] == "train"
    assert len(facts["shown"]) == 9
    assert facts["unranked"] == 1  # the short last row
    shown = call("table", "model", "--data", "data").out
    assert "by the training text, since" in shown
    assert "likeness of row mates on the training text" in shown
    assert call("pack", "model", "-o", "words.lightrnn").code == 0
    of_packed = json.loads(call("table", "words.lightrnn", "--data", "data", "--json").out)
    assert {line["row"]: sorted(line["words"]) for line in of_packed["shown"]} == {
        line["row"]: sorted(line["words"]) for line in facts["shown"]
    }
    assert of_packed["coherence"] == pytest.approx(facts["coherence"], rel=1e-9)
    (tmp_path / "other.txt").write_text("quite other words\n" * 9, encoding="utf-8")
    assert call("prepare", "other.txt", "-o", "strange").code == 0
    assert "has another vocabulary than the model" in refused(call("table", "model", "--data", "strange"))
