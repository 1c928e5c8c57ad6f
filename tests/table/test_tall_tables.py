"""The page of a table with far more rows than columns: strips side by side that fill it, each place still its word."""

import time
from pathlib import Path

import pytest

from lightrnn.table.explorer import explorer_page
from lightrnn.table.word_table import WordTable
from test_explorer import DOWN, RIGHT, Browser, browser, made_up_vocabulary

__all__ = ["browser"]
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
    assert strips > 1
    assert (strips - 1) * in_strip < rows <= strips * in_strip
    assert wide > 400
    assert high > 400
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
