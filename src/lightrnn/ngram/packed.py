"""An n-gram model as one file of arrays that load at once: what `lightrnn ngram -o NAME.lightrnn` writes.

Shapes: V vocabulary, N_n n-grams of order n.

    about     what it is: order, how many n-grams there are of each, discounts, text rules
    words     the words in byte order;  counts  how often each was seen in training
    grams     the last word of every n-gram, order by order, n-grams sorted by their words' ids, the first word first
    follow    of every n-gram but those of the highest order, how many of the next order begin with it
    probs     log10 probabilities;  backoffs  log10 back-offs, none at the highest order

The layout is told in docs/packed-format.md. Ids follow from the counts, as in every packed file, so a model is sorted
anew when it is written.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..border import check, list_of, maybe, number, record, whole
from ..container import REMEDY, damaged, pack_varints, read_about, read_parts, unpack_varints, write_parts
from ..errors import LightRNNError
from ..outputs import replace_output
from ..text.rules import TextRules
from ..text.word_list import pack_vocabulary, packed_ids, packed_order, unpack_vocabulary
from .model import Level, NGram, Places, start_and_size

KIND = "ngram"
PARTS = ("about", "words", "counts", "grams", "follow", "probs", "backoffs")
AT_ONCE = ("grams", "probs")  # deflating saves a fifth of them and costs more time than all else together
FLOOR = -1000.0  # log10 of what an ARPA file may call -inf
ABOUT = record(
    {
        "ngrams": list_of(whole(0, 2**40), least=1, most=1000),
        "discounts": maybe(list_of(list_of(number(0, 3), least=3, most=3), most=1000)),
    }
)


def write_packed(model: NGram, path: str | Path, *, force: bool = False) -> None:
    """The file; it appears when it is complete, or not at all. If there is one already, `force` replaces it."""
    data = packed_bytes(model)
    with replace_output(path, "file", force=force, option="path") as stage:
        stage.write_bytes(data)


def packed_bytes(model: NGram) -> bytes:
    """The whole file."""
    return write_parts(pack(model), stored=AT_ONCE)


def read_packed(path: str | Path) -> NGram:
    """The model of a file that `write_packed` wrote."""
    origin = str(path)
    parts = read_parts(Path(path).read_bytes(), origin)
    about = read_about(parts, origin)
    if about["kind"] != KIND:
        raise LightRNNError(f"{origin} is no n-gram model but of kind {about['kind']}; load it as lightrnn.load does")
    return unpack(parts, about, origin)


def pack(model: NGram) -> dict[str, bytes]:
    """The parts of its file."""
    levels = _renumbered(model)
    vocabulary, size = model.vocabulary, model.size
    about = {
        "kind": KIND,
        "vocabulary_size": len(vocabulary),
        "rules": vocabulary.rules.to_dict(),
        "ngrams": model.counts,
        "discounts": model.discounts,
        "made_by": f"lightrnn {__version__}",
    }
    follow = [np.bincount(level.keys // size, minlength=len(below.keys)) for below, level in pairwise(levels)]
    return {
        "about": json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode(),
        **pack_vocabulary(vocabulary),
        "grams": np.concatenate([level.keys % size for level in levels]).astype(_id_type(size)).tobytes(),
        "follow": pack_varints(np.concatenate([np.zeros(0, np.int64), *follow])),
        "probs": _floats([level.log10_probs for level in levels]),
        "backoffs": _floats([level.log10_backoffs for level in levels]),
    }


def unpack(parts: Mapping[str, bytes], about: dict[str, Any], origin: str) -> NGram:
    """The model of some parts and of what `read_about` makes of them, checked: what `pack` made."""
    check(about, ABOUT, origin, REMEDY)
    if set(parts) != set(PARTS):
        raise damaged(origin, f"its parts are not {', '.join(PARTS)}")
    rules = TextRules.from_dict(about["rules"], origin)
    vocabulary, _ = unpack_vocabulary(parts, about["vocabulary_size"], rules, origin)
    counts: list[int] = about["ngrams"]
    _, size = start_and_size(vocabulary)
    stored, contexts = _id_type(size), sum(counts[:-1])
    for name, length in (
        ("grams", stored.itemsize * sum(counts)),
        ("probs", 4 * sum(counts)),
        ("backoffs", 4 * contexts),
    ):
        if len(parts[name]) != length:
            raise damaged(origin, f"its part {name!r} has not the length that its n-grams take")
    follow, used = unpack_varints(parts["follow"], contexts, origin)
    if used != len(parts["follow"]) or counts[0] != size:
        raise damaged(origin, "its numbers of n-grams do not fit its words")
    words = np.frombuffer(parts["grams"], stored).astype(np.int64)
    probs, backoffs = (np.frombuffer(parts[name], "<f4").astype(np.float64) for name in ("probs", "backoffs"))
    if not (np.isfinite(probs).all() and np.isfinite(backoffs).all() and (probs <= 0).all()):
        raise damaged(origin, "it holds log-probabilities that are not finite, or above 0")
    levels: list[Level] = []
    begin = 0
    for n, count in enumerate(counts):
        keys = words[begin : begin + count]
        if n:
            before = follow[begin - counts[n - 1] : begin]
            if (before > size).any() or before.sum() != count:
                raise damaged(origin, f"its {n + 1}-grams are not as many as follow the {n}-grams")
            keys = keys + np.repeat(np.arange(len(before)), before) * size
        if (words[begin : begin + count] >= size).any() or (keys[1:] <= keys[:-1]).any():
            raise damaged(origin, f"its {n + 1}-grams are not in order")
        levels.append(Level(keys, probs[begin : begin + count], backoffs[begin : begin + count]))
        begin += count
    return NGram(vocabulary, levels, _discounts(about["discounts"]))


def _discounts(told: list[list[float]] | None) -> list[tuple[float, float, float]] | None:
    return None if told is None else [(one, two, more) for one, two, more in told]


def _id_type(size: int) -> np.dtype[Any]:
    """The narrower of two sorts of whole numbers that holds every id."""
    return np.dtype("<u2" if size <= 1 << 16 else "<u4")


def _floats(arrays: list[NDArray[np.float64]]) -> bytes:
    return np.maximum(np.concatenate(arrays), FLOOR).astype("<f4").tobytes()


def _renumbered(model: NGram) -> list[Level]:
    """The levels under the ids that a packed file gives the words, sorted anew."""
    vocabulary, size = model.vocabulary, model.size
    order = packed_order(vocabulary)
    old = order[packed_ids(vocabulary.counts[order])]  # by new id
    ids = np.arange(size)  # new by old; <s>, where it is no word of the vocabulary, stays the last
    ids[old] = np.arange(len(vocabulary))
    levels = []
    places: Places = np.zeros(1, np.int64)  # new places of the order below
    for level in model.levels:
        contexts, words = np.divmod(level.keys, size)
        keys = places[contexts] * size + ids[words]
        by_key = np.argsort(keys)
        levels.append(level.at(by_key, keys[by_key]))
        places = np.empty(len(keys), np.int64)
        places[by_key] = np.arange(len(keys))
    return levels
