"""The scripts of the page against NumPy on the same bytes, and against bytes that are damaged or hostile."""

import json
import re
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Browser
from helpers import CELLS, made_up_vocabulary
from lightrnn.container import read_parts, write_parts
from lightrnn.models.predictor import CodePredictor
from lightrnn.packed.model import Network, read, write
from lightrnn.packed.page import packed_page
from packed_pages import NASTY, encoded, in_a_worker, network_of, numbered_vocabulary, open_page

CONTEXT = ["w3", "w1", "</s>", "w17", "w3"]
ASK = """
const [payloads, context, prefixes] = given, told = [];
for (const payload of payloads) {
  const reader = new Reader(await readModel(fromBase64(payload))), { network, model } = reader;
  const spelled = found => found.map(({ word, logProb }) => [model.words.text(word), logProb]);
  const path = reader.follow(reader.numbers(context)).map(step => step.logProb), after = reader.at(path.length);
  told.push({
    path,
    all: spelled(network.likeliest(network.open(after), model.words.count)),
    best: prefixes.map(prefix => model.words.beginningWith(prefix))
      .map(range => spelled(network.likeliest(network.open(after), 10, range))),
    greedy: model.words.text(network.draw(network.open(after), 0)),
  });
}
return told;
"""


def assert_parity(browser: Browser, files: list[bytes], context: list[str], prefixes: list[str]) -> None:
    """Log-probabilities to 1e-4, and the very same top ten, with and without a prefix."""
    told = in_a_worker(browser, ASK, [encoded(packed) for packed in files], context, prefixes)
    for packed, found in zip(files, told, strict=True):
        assert_like_numpy(read(packed, "packed"), found, context, prefixes)


def assert_like_numpy(network: Network, found: dict[str, Any], context: list[str], prefixes: list[str]) -> None:
    predictor = CodePredictor(network.config, network.weights, network.table)
    vocabulary = network.vocabulary
    last, path = vocabulary.bos_id, []
    state = predictor.fresh_state(last)
    for word in vocabulary.encode(context).tolist():
        log_prob, state = predictor.word(last, state, word)
        path, last = [*path, log_prob], word
    assert found["path"] == pytest.approx(path, abs=1e-4)
    every = predictor.all_words(last, state)
    assert len(found["all"]) == len(vocabulary)
    given = dict(found["all"])
    assert [given[word] for word in vocabulary.words] == pytest.approx(every.tolist(), abs=1e-4)
    for prefix, best in zip(prefixes, found["best"], strict=True):
        allowed = np.array([word.startswith(prefix) for word in vocabulary.words])
        wanted = predictor.likeliest(last, state, 10, allowed)
        assert [word for word, _ in best] == [vocabulary.words[w] for w in wanted.words]
        assert [log_prob for _, log_prob in best] == pytest.approx(wanted.log_probs.tolist(), abs=1e-4)
    assert found["greedy"] == vocabulary.words[predictor.draw(last, state, 0, np.random.default_rng())]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_answers_are_those_of_numpy_on_the_same_bytes(browser: Browser, tmp_path: Path, cell: str, layers: int) -> None:
    vocabulary = numbered_vocabulary(61)
    open_page(browser, tmp_path, write(network_of(vocabulary)))
    places = [{}, {"alone": 9}, {"alone": 9, "head": 4}, {"K": 3}, {"K": 3, "alone": 20, "head": 20}, {"rows": 30}]
    places += [{"word_bias": True}, {"K": 3, "alone": 20, "word_bias": True}]
    vectors: list[dict[str, Any]] = [{}, {"tied": True}, {"tied": True, "units": 5, "bias": False}]
    variants = [place | vector for place, vector in product(places, vectors)]
    networks = [network_of(vocabulary, cell=cell, layers=layers, **variant) for variant in variants]
    files = [write(network, precision) for network in networks for precision in ("int8", "float32")]
    assert_parity(browser, files, CONTEXT, ["", "w", "w1", "w58", "<", "x"])
    assert browser.complaints() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"alone": 61},
        {"alone": 60},
        {"K": 8},
        {"rows": 1},
        {"rows": 61},
        {"K": 4, "alone": 1, "head": 1},
        {"alone": 61, "word_bias": True},
    ],
    ids=str,
)
def test_odd_tables(browser: Browser, tmp_path: Path, settings: dict[str, int]) -> None:
    packed = write(network_of(numbered_vocabulary(61), **settings))
    open_page(browser, tmp_path, packed)
    assert_parity(browser, [packed], CONTEXT, ["", "w2"])


@pytest.mark.parametrize(("precision", "group"), [("float16", 0), ("int8", 3), ("int8", 4), ("int8", 1000)])
def test_precisions_and_groups(browser: Browser, tmp_path: Path, precision: Any, group: int) -> None:
    packed = write(network_of(numbered_vocabulary(61), alone=9, tied=True), precision, group)
    open_page(browser, tmp_path, packed)
    assert_parity(browser, [packed], CONTEXT, ["", "w2"])


def test_hostile_words_are_found_by_their_bytes(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(made_up_vocabulary(NASTY), alone=3))
    open_page(browser, tmp_path, packed)
    assert_parity(browser, [packed], NASTY, ["", "x", "\ufeff", "<", "é", "\U0001f469", "__"])


def test_draws_follow_the_distribution(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(numbered_vocabulary(12), alone=3, seed=3))
    open_page(browser, tmp_path, packed)
    network = read(packed, "packed")
    predictor = CodePredictor(network.config, network.weights, network.table)
    state = predictor.fresh_state(network.vocabulary.bos_id)
    random = np.random.default_rng(5)
    wanted = [predictor.draw(network.vocabulary.bos_id, state, 1.3, random) for _ in range(3000)]
    shares = np.bincount(wanted, minlength=12) / 3000
    draws = """
    const reader = new Reader(await readModel(fromBase64(given[0]))), opened = reader.open(reader.at(0));
    return Array.from({ length: 3000 }, () => reader.model.words.text(reader.network.draw(opened, 1.3)));
    """
    found = network.vocabulary.encode(in_a_worker(browser, draws, encoded(packed)))
    assert np.bincount(found, minlength=12) / 3000 == pytest.approx(shares, abs=0.06)  # five standard errors


def test_a_key_costs_one_word_at_most(browser: Browser, tmp_path: Path) -> None:
    """A letter reads nothing, and asks the context that is open; what ends a word or a sentence reads it."""
    packed = write(network_of(numbered_vocabulary(61)))
    open_page(browser, tmp_path, packed)
    script = """
    const [payload, text] = given, reader = new Reader(await readModel(fromBase64(payload))), { network } = reader;
    let reads = 0, opens = 0;
    const { read, open } = network;
    network.read = (...of) => { reads++; return read.apply(network, of); };
    network.open = (...of) => { opens++; return open.apply(network, of); };
    return Array.from(text, (_, end) => {
      [reads, opens] = [0, 0];
      reader.look({ text: text.slice(0, end + 1), caret: end + 1, finished: false, count: 8, unknown: false });
      return [reads, opens];
    });
    """
    text = "w1 w2 w3 nonsense  w1 \nw17 w"
    costs = in_a_worker(browser, script, encoded(packed), text)
    assert costs[0] == [0, 1]
    ends = [key == "\n" or (key == " " and before != " ") for before, key in pairwise(text)]
    assert costs[1:] == [[1, 1] if end else [0, 0] for end in ends]


# --- what is damaged or hostile


def test_a_damaged_page_says_so_in_one_sentence(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(numbered_vocabulary(61), alone=9))
    parts = read_parts(packed, "packed")
    about = json.loads(parts["about"])

    def saying(**changed: Any) -> bytes:
        return write_parts(parts | {"about": json.dumps(about | changed).encode()})

    damaged = {
        "it does not begin like one": b"PK" + packed[2:],
        "it ends within its header": packed[:12],
        "its header is not whole": packed[:100],
        "the checksum of its header is wrong": packed[:20] + b"!" + packed[21:],
        "the checksum of its part “weights” is wrong": packed[:-1] + bytes([packed[-1] ^ 1]),
        "it ends within its part “weights”": packed[:-1],
        "something follows its last part": packed + b"!",
        "has format 2, and the page reads up to 1": packed[:8] + b"\2" + packed[9:],
        "of the kind “other”": saying(kind="other"),
        "it has no part “places”": write_parts({name: part for name, part in parts.items() if name != "places"}),
        "two words have one place": write_parts(parts | {"places": bytes(len(parts["places"]))}),
        "its words are not in order": write_parts(parts | {"words": b"\xff" + parts["words"][1:]}),
        "it has fewer weights than it says": write_parts(parts | {"weights": parts["weights"][:-4]}),
        "something follows its weights": write_parts(parts | {"weights": parts["weights"] + b"!"}),
        "its array “input_vectors.weight” has not the shape": saying(input_size=about["input_size"] + 1),
        "its head is too large": saying(head=10**9),
        "it does not say how many words": saying(vocabulary_size=10**12),
        "its table has not room": saying(table_shape=[3, 3]),
        "what it holds does not go together": saying(rules=None),
    }
    open_page(browser, tmp_path, packed)
    load = "return ask('load', { payload: arguments[0] }).then(() => 'read', error => error.message)"
    for reason, file in damaged.items():
        sentence = browser.run(load, encoded(file))
        assert reason in sentence
        assert sentence.startswith(("The model in this page ", "This page runs a LightRNN"))
        assert sentence.endswith("pack a LightRNN." if "kind" in reason else "again.")
        assert "\n" not in sentence
    open_page(browser, tmp_path, packed[:-1])
    assert "it ends within its part “weights”" in browser.text("#facts")
    assert browser.run("return document.querySelector('main').hidden")
    page = packed_page(packed, "cut")
    (tmp_path / "page.html").write_text(
        page.replace('type="text/plain">iUxS', 'type="text/plain">?UxS'), encoding="utf-8"
    )
    browser.open(tmp_path / "page.html")
    assert "it is not base64" in browser.run("return ready.then(() => $('facts').textContent)")
    assert browser.complaints() == []


def test_every_byte_that_is_flipped_and_every_cut_is_refused(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(numbered_vocabulary(12), units=2))
    open_page(browser, tmp_path, packed)
    script = """
    const whole = fromBase64(given[0]), told = new Set();
    const read = () => "read", refused = error => error instanceof Refusal ? "refused" : error.stack;
    const tell = file => readModel(file).then(read, refused);
    for (let place = 0; place < whole.length; place++) {
      const flipped = whole.slice();
      flipped[place] ^= 1 << place % 8;
      told.add(await tell(flipped)).add(await tell(whole.slice(0, place)));
    }
    return [await tell(whole), ...told];
    """
    assert in_a_worker(browser, script, encoded(packed)) == ["read", "refused"]


def test_what_is_hostile_under_right_checksums_is_read_or_refused(browser: Browser, tmp_path: Path) -> None:
    packed = write(network_of(numbered_vocabulary(30), alone=5))
    parts, random = read_parts(packed, "packed"), np.random.default_rng(1)
    files = []
    for _ in range(300):
        name = str(random.choice(list(parts)))
        part = bytearray(parts[name])
        for place in random.integers(len(part), size=random.integers(1, 4)):
            part[place] = random.integers(256)
        files.append(write_parts(parts | {name: bytes(part[: random.integers(len(part) - 1, len(part) + 1)])}))
    open_page(browser, tmp_path, packed)
    load = "return (async () => { const told = []; for (const payload of arguments[0]) "
    load += "told.push(await ask('load', { payload }).then(facts => 'read', error => error.message)); return told; })()"
    told = browser.run(load, [encoded(file) for file in files])
    sentence = re.compile(r"read|(The model in this page|This page runs a LightRNN)[^\n]*\.")
    assert all(sentence.fullmatch(found) for found in told)
    assert 100 < sum(found != "read" for found in told) < 300  # weights and counts may be any
    assert browser.complaints() == []
