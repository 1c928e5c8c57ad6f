"""lightrnn table"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import LightRNNError
from ..outputs import check_output, replace_output
from . import screen
from .options import ForceOption, JsonOption
from .texts import ids_of_same_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..table.word_table import WordTable
    from ..text.spelling import Ids
    from ..text.vocabulary import Vocabulary

LEAST = 8  # words that a row must show in a text to be ranked by them


def table(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder of `lightrnn train`, or a packed file.")],
    row: Annotated[int | None, typer.Option("--row", help="Show this row; the first is 0.")] = None,
    column: Annotated[int | None, typer.Option("--column", help="Show this column; the first is 0.")] = None,
    word: Annotated[str | None, typer.Option("--word", help="Show a word's place, row mates and column mates.")] = None,
    words: Annotated[int, typer.Option("--words", min=1, help="Words of a row or column to show.")] = 10,
    count: Annotated[int, typer.Option("-k", "--count", min=1, help="How many rows to show.")] = 10,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Data folder: show the rows that are most coherent in its text."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page as well, to explore the whole table in a browser.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """The word table: which words share a row or a column, frequent words first.

    Without --row, --column or --word it shows the rows whose words occur most often, or with --data those whose words
    are used most alike in the validation text (in the training text, if the other shows too few words of each row), and
    how alike the words of a row are on average, by the cosine of their neighbours. In a table of more than two
    components, the first is the row and the others in lexicographic order are the column. Words that stand alone share
    no row and have no column: they are counted apart, and the rows that words share are numbered after theirs.

    --json has table_shape; alone, null or the words that stand alone, with their count, tokens and share of the
    training text; shown, a list of rows and columns; of a --word also word, count and place; with --data the text
    (valid or train), coherence, random_coherence and how many rows are unranked.

      lightrnn table model --count 20
      lightrnn table model --word london --words 30
      lightrnn table model --html table.html
    """
    from ..table.explorer import explorer_page, rows_and_columns

    if sum(option is not None for option in (row, column, word, data)) > 1:
        raise LightRNNError("--row, --column, --word and --data cannot be used together; give one of them")
    if html is not None:
        check_output(html, "file", inputs=[model], force=force, option="--html")
    view = View(*_table_of(model), words)
    facts: dict[str, Any] = {"table_shape": list(view.table.shape), "alone": view.alone()}
    if word is not None:
        facts |= view.word(word)
    elif row is not None:
        facts |= {"shown": [view.line("row", row)]}
    elif column is not None:
        facts |= {"shown": [view.line("column", column)]}
    else:
        facts |= view.overview(count, data)
    if html is not None:
        page = explorer_page(view.table, view.vocabulary, f"Word table of {model.resolve().name}")
        with replace_output(html, "file", inputs=[model], force=force, option="--html") as stage:
            stage.write_bytes(page.encode(errors="backslashreplace"))  # the title may be any name
        screen.note(f"the page is {html}; open it in a browser")
    if as_json:
        screen.print_json(facts)
        return
    if word is not None:
        place = ", ".join(map(str, facts["place"]))
        screen.out.print(
            f"{facts['word']}: place ({place}), {facts['count']:,} occurrence{'s' * (facts['count'] != 1)}"
        )
    elif row is None and column is None and view.table.alone:
        screen.out.print(_alone_line(facts["alone"]))
    _print_lines(facts["shown"])
    if len(facts.get("place", ())) == 1 or (row is not None and row < view.table.alone):
        screen.out.print("stands alone: no other word is in its row, and it has no column")
    if "coherence" in facts:
        _print_ranking(facts, rows_and_columns(view.table)[0])


def _table_of(model: Path) -> tuple[WordTable, Vocabulary]:
    """The table and its words, of a model folder, whose weights are left alone, or of a packed file."""
    from ..models.folder import load_table, load_vocabulary
    from ..packed.model import Network

    if not model.exists():
        raise LightRNNError(f"{model} does not exist; give a folder of lightrnn train, or a packed file")
    if model.is_file():
        network = Network.load(model)
        return network.table, network.vocabulary
    vocabulary = load_vocabulary(model)
    return load_table(model, vocabulary), vocabulary


@dataclass(frozen=True)
class View:
    """What the command says of a table: at most `limit` words of a row or column."""

    table: WordTable
    vocabulary: Vocabulary
    limit: int

    def alone(self) -> dict[str, Any] | None:
        """The words that stand alone: how many, their occurrences, the frequent ones; None where there are none."""
        from ..table.explorer import alone_words

        if not self.table.alone:
            return None
        counts = self.vocabulary.counts
        members = alone_words(self.table, counts)
        tokens = int(counts[members].sum())
        return {
            "count": len(members),
            "tokens": tokens,
            "share": tokens / max(int(counts.sum()), 1),
            "words": [self.vocabulary.words[w] for w in members[: self.limit]],
            "more": max(len(members) - self.limit, 0),
        }

    def line(self, kind: Literal["row", "column"], index: int, beside: int | None = None) -> dict[str, Any]:
        """A row or column: its number, the occurrences of its words, the frequent ones, `beside` left out."""
        from ..table.explorer import column_words, row_words, rows_and_columns

        end = self.table.shape[0] if kind == "row" else rows_and_columns(self.table)[1]
        if not end:
            raise LightRNNError("--column cannot be used here: all words of this table stand alone, with no column")
        if not 0 <= index < end:
            raise LightRNNError(f"--{kind} must be from 0 to {end - 1} in this table, got {index}")
        members = (row_words if kind == "row" else column_words)(self.table, self.vocabulary.counts, index)
        mates = members[members != beside] if beside is not None else members
        return {
            kind: index,
            "tokens": int(self.vocabulary.counts[members].sum()),
            "words": [self.vocabulary.words[w] for w in mates[: self.limit]],
            "more": max(len(mates) - self.limit, 0),
        }

    def overview(self, count: int, data: Path | None) -> dict[str, Any]:
        """So many rows, the most telling first; by a text, also how telling all of them are."""
        from ..table.explorer import rank_rows, rows_and_columns

        if data is None:
            return {"shown": self._lines(rank_rows(self.table, self.vocabulary.counts), count)}
        rows, _ = rows_and_columns(self.table)
        if not rows:
            return {"shown": []}
        text, ids, ranked = self.ranked(data)
        shown = self._lines(ranked, count)
        return {"shown": shown, "text": text, "unranked": rows - len(ranked), **self.coherence(ids)}

    def _lines(self, rows: NDArray[np.int64], count: int) -> list[dict[str, Any]]:
        return [self.line("row", int(row)) for row in rows[:count]]

    def ranked(self, data: Path) -> tuple[str, Ids, NDArray[np.int64]]:
        """A text, and the rows that are most coherent in it first, without those of which it says too little: the
        validation text; if that says too little of all rows, as where only rare words share them, the training text."""
        from ..table.coherence import row_coherence
        from ..table.explorer import rank_rows
        from ..text.corpus import Corpus

        corpus = Corpus.load(data)
        own_ids = ids_of_same_words(corpus, self.vocabulary)
        if own_ids is None:
            raise LightRNNError(f"--data {data} has another vocabulary than the model; give the data it was trained on")
        for split in ("valid", "train"):
            ids = own_ids[corpus.split(split)]
            ranked = rank_rows(self.table, self.vocabulary.counts, row_coherence(self.table, ids, least=LEAST))
            if len(ranked):
                break
        return split, ids, ranked

    def coherence(self, ids: Ids) -> dict[str, float]:
        """How alike the words of a row are used in a text, and those of a random table's rows."""
        import numpy as np

        from ..table.coherence import table_coherence
        from ..table.word_table import WordTable

        shared = self.table.shared
        places = np.random.default_rng(1).permutation(len(shared))
        random = self.table.with_shared(WordTable.from_places(places, shared.shape))
        return {"coherence": table_coherence(self.table, ids), "random_coherence": table_coherence(random, ids)}

    def word(self, asked: str) -> dict[str, Any]:
        """A word's place, and those who share its row or its column: no one where it stands alone."""
        from ..table.explorer import rows_and_columns

        ids = self.vocabulary.ids
        word = ids.get(asked, ids.get(self.vocabulary.rules.clean(asked)))
        if word is None:
            raise LightRNNError(
                f"--word: {asked!r} is not among the {len(ids):,} words; --html makes a page with a search"
            )
        place = [code for code in self.table.codes[word].tolist() if code >= 0]
        shown = []
        if len(place) > 1:
            column = (int(self.table.places[word]) - self.table.alone) % rows_and_columns(self.table)[1]
            shown = [self.line("row", place[0], word), self.line("column", column, word)]
        return {
            "word": self.vocabulary.words[word],
            "count": int(self.vocabulary.counts[word]),
            "place": place,
            "shown": shown,
        }


def _print_ranking(facts: dict[str, Any], rows: int) -> None:
    text = {"valid": "validation", "train": "training"}[facts["text"]]
    if facts["text"] == "train":
        screen.out.print(
            "by the training text, since in the validation text no row has enough words that occur often enough"
        )
    if facts["unranked"]:
        screen.out.print(
            f"{facts['unranked']:,} of {rows:,} rows could not be ranked: fewer than "
            f"{LEAST} of their words occur often enough in the {text} text"
        )
    if facts["unranked"] < rows:
        screen.out.print(
            f"likeness of row mates on the {text} text: {facts['coherence']:.4f}, "
            f"in a random table {facts['random_coherence']:.4f}"
        )


def _alone_line(alone: dict[str, Any]) -> str:
    """How many words stand alone, what they are of the text, and the frequent ones."""
    stand = f"{alone['count']:,} words stand alone" if alone["count"] > 1 else "1 word stands alone"
    return f"{stand}, {alone['share']:.1%} of the training text:  {_listed(alone)}"


def _listed(line: dict[str, Any]) -> str:
    more = [f"… {line['more']:,} more"] if line["more"] else []
    return "  ".join(line["words"] + more)


def _print_lines(lines: list[dict[str, Any]]) -> None:
    names = [f"row {line['row']}" if "row" in line else f"column {line['column']}" for line in lines]
    tokens = [f"{line['tokens']:,}" for line in lines]
    for name, count, line in zip(names, tokens, lines, strict=True):
        screen.out.print(f"{name:{max(map(len, names))}}  {count:>{max(map(len, tokens))}} tokens  {_listed(line)}")
