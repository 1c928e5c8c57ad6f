"""How long a person waits for suggestions in the page of a packed model: from key to words on the screen, in Chromium.

    python benchmarks/page.py MODEL [--text "…"]

MODEL is a folder made by `lightrnn train`, or a packed file. A text is typed into its page letter by letter; a key's
time runs from the event to the new suggestions laid out, the way to the worker and back included, painting left out.
Beside it stands the same question to the same packed bytes in NumPy, in this process: the state is kept, a space reads
one word more, and the words that begin so far are asked for. Medians and worst of the keys, by what was typed; the two
take turns by word.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lightrnn
from lightrnn.inference.lm import LM
from lightrnn.models.sizes import human_bytes
from lightrnn.packed.model import Network, write
from lightrnn.packed.page import packed_page

ROOT = Path(__file__).parents[1]
TEXT = "it was a dark and stormy night , and the old woman who lived by the river could not quite remember his name . "
COUNT = 8  # words that the page suggests
TYPE = """
const [letters] = arguments, times = [];
text.focus();
return (async () => {
  for (const letter of letters) {
    const begin = performance.now();
    text.setRangeText(letter, text.value.length, text.value.length, "end");
    await refresh();
    suggestions.getBoundingClientRect();
    times.push(performance.now() - begin);
  }
  return times;
})();
"""


def numpy_times(lm: LM, state: Any, word: str) -> tuple[list[float], Any]:
    """Milliseconds for each letter of a word and the space behind it, and the state after it."""
    times = []
    for end in range(1, len(word) + 2):
        begin = time.perf_counter()
        if end <= len(word):
            lm.next_words(state, COUNT, word[:end])
        else:
            _, state = lm.score_word(state, word)
            lm.next_words(state, COUNT)
        times.append(1000 * (time.perf_counter() - begin))
    return times, state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", default=TEXT)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import started_browser  # type: ignore[import-not-found]

    packed = write(Network.load(arguments.model))
    with tempfile.TemporaryDirectory() as folder:
        page, file = Path(folder) / "page.html", Path(folder) / "words.lightrnn"
        page.write_text(packed_page(packed, "benchmark"), encoding="utf-8")
        file.write_bytes(packed)
        lm = lightrnn.load(file)
        state = lm.begin_state()
        lm.next_words(state, prefix="a")  # the first prefix asked for has all words looked at, later ones an index
        lm.next_words(state, prefix="a")
        with started_browser(Path(folder) / "profile") as browser:
            begin = time.perf_counter()
            browser.open(page)
            browser.run("return ready")
            opening = time.perf_counter() - begin
            keys: list[tuple[str, float, float]] = []  # what was typed, milliseconds in the page and in NumPy
            for word in arguments.text.split():
                names = ["first letter", *(["further letter"] * (len(word) - 1)), "space"]
                times, state = numpy_times(lm, state, word)
                keys += zip(names, browser.run(TYPE, word + " "), times, strict=True)
    print(f"{len(lm.vocabulary):,} words, {human_bytes(len(packed))} packed; page open and ready in {opening:.2f} s")
    print(f"{'milliseconds':16} {'keys':>5} {'page':>8} {'worst':>8} {'NumPy':>8} {'worst':>8}   ratio")
    for name in ("space", "first letter", "further letter", "all keys"):
        page_times, numpy_ones = zip(*((a, b) for typed, a, b in keys if name in (typed, "all keys")), strict=True)
        here, there = statistics.median(page_times), statistics.median(numpy_ones)
        figures = here, max(page_times), there, max(numpy_ones)
        print(f"{name:16} {len(page_times):5}", *(f"{value:8.2f}" for value in figures), f"{here / there:7.2f}")


if __name__ == "__main__":
    main()
