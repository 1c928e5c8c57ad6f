"""Looking at the table: the command, the page, and the page in a browser."""

import json
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import DOWN, ENTER, RIGHT, Browser
from helpers import made_up_vocabulary, members
from lightrnn.table.explorer import (
    alone_words,
    column_words,
    explorer_page,
    rank_rows,
    row_words,
    rows_and_columns,
)
from lightrnn.table.word_table import WordTable
from lightrnn.text.vocabulary import Vocabulary

NASTY = [
    *("</script><script>alert(1)</script>", "<!--<script>", "]]>", "&lt;", "&", '"', "'", "\\", "\\u003c", "{{data}}"),
    *("\u2028", "\u2029", "\u00a0", "\ufeff", "\x00", "\x7f", "e\u0301", "é", "مرحبا", "👩‍👩‍👧", "中文", "x" * 300),
]


# --- rows and columns


@given(st.integers(3, 200), st.integers(2, 4), st.integers(0, 10**6))
def test_rows_and_columns_are_those_of_the_codes(V: int, K: int, seed: int) -> None:
    table, vocabulary = WordTable.random(V, K, seed=seed), made_up_vocabulary([f"w{i}" for i in range(V - 2)])
    rows, columns = rows_and_columns(table)
    row, column = seed % rows, seed % columns
    shown = [vocabulary.words[w] for w in row_words(table, vocabulary.counts, row)]
    assert shown == members(table, vocabulary, row=row)
    shown = [vocabulary.words[w] for w in column_words(table, vocabulary.counts, column)]
    assert shown == members(table, vocabulary, column=column)


def test_rows_are_ranked_by_use_or_by_a_given_measure() -> None:
    table = WordTable(np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1]]), (3, 2))
    counts = np.array([1, 2, 9, 1, 6])
    assert rank_rows(table, counts).tolist() == [2, 1, 0]
    assert rank_rows(table, counts, coherence=np.array([0.1, 0.9, 0.5])).tolist() == [1, 2, 0]


# --- the page


class Page(HTMLParser):
    """What a browser's parser makes of the page: elements with their attributes, and the embedded data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._json = ""
        self.feed(page)
        self.close()
        self.data = json.loads(self._json)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1] == ("script", {"id": "data", "type": "application/json"}):
            self._json += data

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}))


def assert_holds(data: dict[str, Any], table: WordTable, vocabulary: Vocabulary) -> None:
    """The embedded data are the table: every word once, by falling frequency, with its count and place."""
    assert tuple(data["shape"]) == table.shape
    words = data["words"].split("\n")
    assert sorted(words) == sorted(vocabulary.words)
    ids = [vocabulary.ids[word] for word in words]
    assert data["counts"] == vocabulary.counts[ids].tolist() == sorted(vocabulary.counts.tolist(), reverse=True)
    codes = np.stack(np.unravel_index(data["places"], table.shape), axis=1)
    assert (codes == table.codes[ids]).all()


@pytest.mark.parametrize("K", [2, 3])
def test_nasty_words_come_back_and_nothing_comes_from_outside(K: int) -> None:
    vocabulary = made_up_vocabulary(NASTY)
    table = WordTable.random(len(vocabulary), K, seed=2)
    page = Page(explorer_page(table, vocabulary, title="</title>&amp;<script>"))
    assert_holds(page.data, table, vocabulary)
    assert page.data["title"] == "</title>&amp;<script>"
    assert [tag for tag, _ in page.elements].count("script") == 2
    links = [value for _, attributes in page.elements for name, value in attributes.items() if name in {"src", "href"}]
    assert links == ["data:,"]


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\x0b\x0c"), min_size=1)


@given(st.lists(WORDS, min_size=1, max_size=20, unique=True))
def test_any_words_come_back(words: list[str]) -> None:
    vocabulary = made_up_vocabulary([word for word in words if word not in {"</s>", "<unk>"}] or ["a"])
    table = WordTable.random(len(vocabulary), seed=0)
    assert_holds(Page(explorer_page(table, vocabulary, "any")).data, table, vocabulary)


@pytest.fixture(scope="module")
def large() -> tuple[WordTable, Vocabulary]:
    """100,000 words of several scripts."""
    stems = ("word", "straße", "Élan", "слово", "λέξη", "言葉", "كلمة", "a</b>&")
    vocabulary = made_up_vocabulary([f"{stems[i % len(stems)]}{i}" for i in range(100_000 - 2)])
    return WordTable.random(100_000, seed=4), vocabulary


def test_a_large_page_is_complete_and_small(large: tuple[WordTable, Vocabulary]) -> None:
    page = explorer_page(*large, title="large")
    assert_holds(Page(page).data, *large)
    assert len(page.encode()) < 5_000_000  # bytes: fifty a word


# --- the page in a browser


def assert_shows(browser: Browser, table: WordTable, vocabulary: Vocabulary, word: str) -> None:
    """The page has this word selected, and lists its whole row and column, frequent words first."""
    deadline = time.monotonic() + 10
    while browser.text("#word") != word and time.monotonic() < deadline:
        time.sleep(0.05)
    row, column = table.codes[vocabulary.ids[word]].tolist()
    assert browser.text("#word") == word
    assert browser.text("#place").startswith(f"row {row}, column {column} · ")
    assert browser.words("#row-words") == members(table, vocabulary, row=row)
    assert browser.words("#column-words") == members(table, vocabulary, column=column)


def test_exploring_a_hundred_thousand_words(
    browser: Browser, large: tuple[WordTable, Vocabulary], tmp_path: Path
) -> None:
    table, vocabulary = large
    ranked = sorted(vocabulary.words, key=lambda word: (-vocabulary.counts[vocabulary.ids[word]], vocabulary.ids[word]))
    page = tmp_path / "page.html"
    page.write_text(explorer_page(table, vocabulary, title="Large & <b>"), encoding="utf-8")
    browser.open(page)
    assert browser.run("return document.title") == browser.text("#title") == "Large & <b>"
    assert_shows(browser, table, vocabulary, ranked[0])

    # Search: the exact word first, though others that begin so are more frequent; case does not matter.
    browser.type("#search", "ÉLAN10")
    others = [word for word in ranked if word.startswith("Élan10") and word != "Élan10"]
    assert browser.words("#results") == ["Élan10", *others][:100]
    assert browser.text("#results").endswith(f"… {len(others) + 1 - 100:,} more")
    browser.type("#search", DOWN + ENTER)
    assert_shows(browser, table, vocabulary, others[0])
    browser.clear("#search")
    browser.type("#search", "слово100")
    found = browser.words("#results")
    browser.click("#results [data-id]:nth-child(5)")
    assert_shows(browser, table, vocabulary, found[4])

    # A click on a mate selects it; Back returns.
    mate = browser.words("#column-words")[7]
    browser.click("#column-words [data-id]:nth-child(8)")
    assert_shows(browser, table, vocabulary, mate)
    browser.call("POST", "/back")
    assert_shows(browser, table, vocabulary, found[4])

    # The map: the most frequent word is darkest; pointing names a word, a click selects it, arrow keys walk from there.
    row, column = table.codes[vocabulary.ids[ranked[0]]].tolist()
    pixel = "return [...canvas.getContext('2d').getImageData(...arguments, 1, 1).data]"
    assert browser.run(pixel, column, row) == [16, 48, 92, 255]
    word = vocabulary.words[table.words[100 * table.shape[1] + 40]]
    beside = vocabulary.words[table.words[101 * table.shape[1] + 41]]
    left, top, wide, high = browser.run("const b = map.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]")
    where = left + 40.5 * wide / table.shape[1], top + 100.5 * high / table.shape[0]
    browser.point(*where)
    assert browser.text("#tip").startswith(word)
    browser.point(*where, click=True)
    assert_shows(browser, table, vocabulary, word)
    browser.type("#map", DOWN + RIGHT)
    assert_shows(browser, table, vocabulary, beside)
    assert browser.complaints() == []


def test_nasty_words_and_three_components_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    vocabulary = made_up_vocabulary(NASTY + [f"w{i}" for i in range(3000)])
    table = WordTable.random(len(vocabulary), 3, seed=5)
    page = tmp_path / "page.html"
    page.write_text(explorer_page(table, vocabulary, title="nasty"), encoding="utf-8")
    browser.open(page)
    assert_holds(browser.run("return JSON.parse($('data').textContent)"), table, vocabulary)
    assert "Component 1 is the row here" in browser.text("#note")
    for word in NASTY:
        browser.run("go(words.indexOf(arguments[0]))", word)
        row, *rest = table.codes[vocabulary.ids[word]].tolist()
        column = int(np.ravel_multi_index(rest, table.shape[1:]))
        assert browser.words("#row-words") == members(table, vocabulary, row=row)
        assert browser.words("#column-words") == members(table, vocabulary, column=column)
        assert f"row {row}, column {column} = ({rest[0]}, {rest[1]})" in browser.text("#place")
    assert browser.complaints() == []


WHERE = "const b = map.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]"


def assert_selected(browser: Browser, word: str) -> None:
    deadline = time.monotonic() + 10
    while browser.text("#word") != word and time.monotonic() < deadline:
        time.sleep(0.05)
    assert browser.text("#word") == word


@pytest.mark.parametrize(("rows", "words"), [(2500, 34_990), (300, 900)])
def test_a_tall_table_fills_its_side_of_the_page(browser: Browser, tmp_path: Path, rows: int, words: int) -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(words - 2)])
    table = WordTable.random(words, rows=rows, seed=3)
    columns = table.shape[1]
    page = tmp_path / "page.html"
    page.write_text(explorer_page(table, vocabulary, title="tall"), encoding="utf-8")
    browser.open(page)
    left, top, wide, high = browser.run(WHERE)
    strips, in_strip = browser.run("return [strips, stripRows]")
    assert strips > 1  # it is a tall one
    assert (strips - 1) * in_strip < rows <= strips * in_strip
    assert wide > 400  # pixels of a window of 1280 by 900
    assert high > 400  # the same
    assert f"in {strips} strips" in browser.text("#strips")

    size = wide / (strips * (columns + 1) - 1), high / in_strip
    assert size[0] == size[1] == round(size[0])
    for row in (1, in_strip - 1, in_strip, in_strip + 3):
        if row % in_strip * size[1] + top > 700:
            continue  # below the window
        word = vocabulary.words[table.words[row * columns + 2]]
        x = left + (row // in_strip * (columns + 1) + 2.5) * size[0]
        browser.point(x, top + (row % in_strip + 0.5) * size[1], click=True)
        assert_selected(browser, word)
        mark = browser.run(
            "const b = $('mark').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]"
        )
        # pixels: half of one, and rounding
        assert mark == pytest.approx([x, top + (row % in_strip + 0.5) * size[1]], abs=0.6)
    before = browser.text("#word")
    browser.point(left + (columns + 0.5) * size[0], top + 5, click=True)  # between two strips is nothing
    assert browser.text("#word") == before
    browser.run("show(words.indexOf(arguments[0]))", vocabulary.words[table.words[(in_strip - 1) * columns]])
    browser.type("#map", DOWN + RIGHT)  # on into the next strip
    assert_selected(browser, vocabulary.words[table.words[in_strip * columns + 1]])
    assert browser.complaints() == []


def test_a_square_table_is_one_piece(browser: Browser, tmp_path: Path) -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(2498)])
    page = tmp_path / "page.html"
    page.write_text(explorer_page(WordTable.random(2500, seed=3), vocabulary, title="square"), encoding="utf-8")
    browser.open(page)
    assert browser.run("return [strips, canvas.width, canvas.height]") == [1, 50, 50]
    assert browser.text("#strips") == ""


# --- words that stand alone

ALONE = [(2, 0), (2, 1), (2, 70), (2, 199), (2, 200), (3, 70)]  # components, how many of 200 words


def table_with_alone(components: int, alone: int, vocabulary: Vocabulary) -> WordTable:
    """The most frequent words alone, the others at random."""
    frequent = np.argsort(-vocabulary.counts, kind="stable")[:alone]
    return WordTable.random(len(vocabulary), components, seed=3, alone=frequent)


@pytest.mark.parametrize(("K", "alone"), ALONE)
def test_words_that_stand_alone_are_apart_from_rows_and_columns(K: int, alone: int) -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(198)])
    counts, table = vocabulary.counts, table_with_alone(K, alone, vocabulary)
    rows, columns = rows_and_columns(table)
    apart = alone_words(table, counts)
    assert table.codes[apart, 0].tolist() == list(range(alone))
    assert [row_words(table, counts, row).tolist() for row in range(alone)] == [[word] for word in apart]

    listed = [row_words(table, counts, alone + row) for row in range(rows)]
    for row, found in enumerate(listed, alone):
        assert (table.codes[found, 0] == row).all()
        assert (np.diff(counts[found]) <= 0).all()
    assert sorted(np.concatenate([apart, *listed]).tolist()) == list(range(200))
    standing = [column_words(table, counts, column) for column in range(columns)]
    assert all(len({tuple(place) for place in table.codes[found, 1:].tolist()}) == 1 for found in standing)
    assert sorted(np.concatenate([apart, *standing]).tolist()) == list(range(200))

    assert sorted(rank_rows(table, counts).tolist()) == list(range(alone, alone + rows))
    use = [counts[row_words(table, counts, row)].sum() for row in rank_rows(table, counts)]
    assert use == sorted(use, reverse=True)


def test_the_page_says_who_stands_alone() -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(198)])
    table = table_with_alone(2, 70, vocabulary)
    data = Page(explorer_page(table, vocabulary, "alone")).data
    assert (data["alone"], data["shape"]) == (70, list(table.shape))
    ids = [vocabulary.ids[word] for word in data["words"].split("\n")]
    assert data["places"] == table.places[ids].tolist()
    assert sorted(data["places"][:70]) == list(range(70))  # they are the most frequent, and have the first places


@pytest.mark.parametrize("K", [2, 3])
def test_words_that_stand_alone_in_a_browser(browser: Browser, tmp_path: Path, K: int) -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(2998)])
    table = table_with_alone(K, 700, vocabulary)
    apart = [vocabulary.words[w] for w in alone_words(table, vocabulary.counts)]
    ranked = [vocabulary.words[w] for w in np.lexsort((np.arange(3000), -vocabulary.counts))]
    shared = [word for word in ranked if word not in set(apart)]
    rows, columns = rows_and_columns(table)
    page = tmp_path / "page.html"
    page.write_text(explorer_page(table, vocabulary, title="alone"), encoding="utf-8")
    browser.open(page)

    def place_of(word: str) -> tuple[int, int]:
        codes = table.codes[vocabulary.ids[word]].tolist()
        return codes[0], int(np.ravel_multi_index(codes[1:], table.shape[1:]))

    # It begins with the most frequent word that has company; its row and column are as in table.tsv.
    assert browser.text("#facts") == f"3,000 words: 700 alone, 2,300 in {rows} rows and {columns} columns"
    assert_selected(browser, shared[0])
    row, column = place_of(shared[0])
    assert browser.text("#place").startswith(f"row {row}, column {column}")
    counts = vocabulary.counts
    for kind, found in (("row", row_words(table, counts, row)), ("column", column_words(table, counts, column))):
        assert browser.words(f"#{kind}-words") == [vocabulary.words[w] for w in found]
    share = counts[alone_words(table, counts)].sum() / counts.sum()
    assert browser.text("#alone-share") == f"{100 * share:.1f}% of the training text"
    assert browser.words("#alone-words") == apart[:400]

    # The map is of shared rows only, the most frequent of their words darkest.
    assert browser.run("return [rows, columns]") == [rows, columns]
    pixel = "return [...canvas.getContext('2d').getImageData(across(rowOf(first)) + columnOf(first), "
    assert browser.run(pixel + "down(rowOf(first)), 1, 1).data]") == [16, 48, 92, 255]

    # A word that stands alone is found by the search: no row, no column, no mark on the map.
    browser.type("#search", apart[5] + ENTER)
    assert_selected(browser, apart[5])
    assert browser.text("#place").startswith("row 5, alone · ")
    hidden = "return ['row', 'column', 'mark', 'row-band', 'alone'].filter(id => $(id).hidden)"
    assert browser.run(hidden) == ["row", "column", "mark", "row-band"]
    assert browser.run("return words[document.querySelector('#alone-words [aria-current]').dataset.id]") == apart[5]
    browser.click("#alone-words .more")
    assert browser.words("#alone-words") == apart
    browser.click("#alone-words [data-id]:nth-child(8)")
    assert_selected(browser, apart[7])
    browser.type("#map", DOWN)  # walks on from the first place
    assert_selected(browser, vocabulary.words[table.words[700]])
    assert browser.run(hidden) == []
    assert browser.complaints() == []


def test_a_page_of_words_that_all_stand_alone(browser: Browser, tmp_path: Path) -> None:
    vocabulary = made_up_vocabulary([f"w{i}" for i in range(48)])
    page = tmp_path / "page.html"
    page.write_text(explorer_page(table_with_alone(2, 50, vocabulary), vocabulary, title="all"), encoding="utf-8")
    browser.open(page)
    assert browser.text("#facts") == "50 words: 50 alone"
    assert len(browser.words("#alone-words")) == 50
    assert browser.run("return document.querySelector('aside').hidden")
    browser.run("dispatchEvent(new Event('resize'))")
    assert browser.complaints() == []
