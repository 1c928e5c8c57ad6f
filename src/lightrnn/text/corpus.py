"""The token stream on disk: `prepare` makes a data folder from text, `Corpus` reads it.

A data folder holds vocab.tsv (word, tab, count), train.npy, valid.npy and test.npy (int32 token ids, memory-mapped if
they are large) and data.json (text rules, counts, out-of-vocabulary rates, hashes). The text is read once, so it may
be a pipe, and on all cores: words get provisional numbers in order of appearance, segment by segment (segments.py),
and their ids when the vocabulary is known. Memory grows with the number of different words, not with the text's length.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from mmap import mmap
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ..border import check, digest, file_name, list_of, number, record, whole
from ..errors import LightRNNError
from ..files import Sources, expand, has_sha256, listed, read_json, sha256, write_json
from ..outputs import replace_output, settle
from ..runtime import Progress, silent
from .id_files import bincount, check_header, id_chunks, write_ids
from .presets import choose_splits, find_preset
from .reading import word_blocks
from .rules import Convention, TextRules
from .segments import NumberedText, WordCounts, WordNumbers
from .vocabulary import Vocabulary
from .workers import read_segments

DATA = "data.json"
DATA_FORMAT = 1
SPLITS = ("train", "valid", "test")
MAPPED_BYTES = 1 << 24  # files of ids from this size on are mapped, smaller ones are read
HELD_OUT_SHARE = 0.05
LOOK_BACK = 1 << 20  # tokens among which the end of a line is looked for at once
SPLIT = record(
    {
        "files": list_of(file_name()),
        "tokens": whole(1),
        **dict.fromkeys(("lines", "unknown"), whole()),
        "unknown_rate": number(least=0, most=1),
        "sha256": digest(),
    },
    dict.fromkeys(("words", "types"), whole()),
)
DESCRIPTION = record(  # data.json
    {
        "vocabulary_size": whole(2, 2**31),
        "vocabulary_digest": digest(),
        "rules": record({}),
        "splits": record({}, dict.fromkeys(SPLITS, SPLIT)),
    },
    {"vocabulary_fingerprint": digest()},  # not before version 0.3.0
)


def choose_vocabulary(
    words: Sequence[str],
    counts: NDArray[np.int64],
    rules: TextRules,
    min_count: int = 1,
    max_words: int | None = None,
) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The words to keep, most frequent first (ties: first seen first), and the ids of all words that were given.

    The counts of those that are not kept go to unk. The special words are always kept and are part of max_words.
    """
    missing = [special for special in rules.specials if special not in words]
    words = [*words, *missing]
    counts = np.concatenate([counts, np.zeros(len(missing), np.int64)])
    special_places = np.array([words.index(word) for word in rules.specials])
    is_in = counts >= max(min_count, 1)
    is_in[special_places] = True
    order = np.argsort(-counts, kind="stable")
    order = order[is_in[order]]
    if max_words is not None and len(order) > max_words:
        is_special = np.isin(order, special_places)
        room = max_words - len(special_places)
        order = order[is_special | (np.cumsum(~is_special) <= room)]
    total = counts.sum()
    chosen_counts = counts[order]
    chosen_counts[np.flatnonzero(order == words.index(rules.unk))] += total - chosen_counts.sum()
    resorted = np.argsort(-chosen_counts, kind="stable")
    order = order[resorted]
    chosen = Vocabulary([words[i] for i in order.tolist()], chosen_counts[resorted], rules)
    ids = np.full(len(words), chosen.unk_id, np.int32)
    ids[order] = np.arange(len(order))
    return chosen, ids[: len(words) - len(missing)]


def is_data_folder(path: str | Path) -> bool:
    """Whether this is a folder of `prepare`, whole or damaged."""
    settle(path)
    return (Path(path) / DATA).is_file()


def prepare(
    train: Sources,
    out: str | Path,
    *,
    valid: Sources = (),
    test: Sources = (),
    preset: str | None = None,
    rules: TextRules | None = None,
    min_count: int | None = None,
    max_words: int | None = None,
    vocabulary: Vocabulary | str | Path | None = None,
    add_words: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> "Corpus":
    """Make the data folder `out` from text files; it appears when it is complete, or not at all.

    Texts are files, globs, folders of shards, or one corpus folder that holds all splits. Rules and `min_count` are
    the preset's unless given. The vocabulary comes from the training text alone, by `min_count` and `max_words`, or is
    given: a Vocabulary (a trained model's) or a word list file. With `add_words` it is the given one, and after its
    words those that the text has besides, by `min_count` and up to `max_words` in all. Without `valid` the last 5% of
    the training text is held out, and does not count towards the vocabulary. If there is a data folder already, `force`
    replaces it.
    """
    if add_words and vocabulary is None:
        raise LightRNNError("words are added to those of a vocabulary, and none was given; give one, such as a model's")
    if vocabulary is not None and not add_words and (min_count or max_words):
        raise LightRNNError("--vocab fixes the words, so --min-count and --max-words cannot be used with it")
    if isinstance(vocabulary, Vocabulary) and rules not in (None, vocabulary.rules):
        raise LightRNNError("a model's vocabulary comes with its own text rules, so none can be given with it")
    chosen_preset = find_preset(preset)
    sources = dict(zip(SPLITS, choose_splits(train, valid, test, chosen_preset), strict=True))
    rules = vocabulary.rules if isinstance(vocabulary, Vocabulary) else rules or chosen_preset.rules
    min_count = chosen_preset.min_count if min_count is None else min_count
    inputs: list[str | Path] = [*listed(train), *listed(valid), *listed(test)]
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        inputs.append(vocabulary)
    with replace_output(out, "data", inputs=inputs, force=force, option="out") as folder:
        scratch = folder / "segments"
        scratch.mkdir()
        words, counts, text = _read_training(sources["train"], rules, scratch, progress)
        cut = text.tokens if sources["valid"] else _cut_point(text, words.index(rules.eos))
        for chunk in text.chunks(cut, text.tokens):
            counts -= np.bincount(chunk, minlength=len(words))
        chosen, final = _vocabulary(vocabulary, words, counts, rules, min_count, max_words, add_words)
        del words, counts
        with (folder / "vocab.tsv").open("wb") as file:
            chosen.write(file)

        write_ids(folder / "train.npy", _counted(text.take(cut, final), cut, progress))
        if not sources["valid"]:
            write_ids(folder / "valid.npy", text.take(text.tokens, final))
        for split, what in (("valid", "validation text"), ("test", "test text")):
            if files := sources[split]:
                text = _read_held_out(files, chosen, scratch, progress)
                if write_ids(folder / f"{split}.npy", text.take(text.tokens)) == 0:
                    raise _empty(what, files)
        scratch.rmdir()
        info = _describe(folder, chosen, sources)
        write_json(folder / DATA, info)
    return Corpus.opened(Path(out), chosen, info, verify=False)


def _read_training(
    files: Sequence[str], rules: TextRules, scratch: Path, progress: Progress
) -> tuple[list[str], NDArray[np.int64], NumberedText]:
    """The words of the training text in order of appearance, how often each is there, and the text in their numbers."""
    seen, text = WordCounts(), NumberedText()
    with closing(read_segments(files, rules, scratch, progress)) as segments:
        for segment in segments:
            text.append(segment, seen.add(segment.words(), segment.counts()))
    if text.tokens <= 1:
        raise _empty("training text", files)
    return [word.decode() for word in seen.numbers], seen.counts(), text


def _read_held_out(files: Sequence[str], vocabulary: Vocabulary, scratch: Path, progress: Progress) -> NumberedText:
    """A text in the ids of a vocabulary."""
    text = NumberedText()
    with closing(read_segments(files, vocabulary.rules, scratch, progress)) as segments:
        for segment in segments:
            text.append(segment, vocabulary.encode([word.decode() for word in segment.words()]))
    return text


def _counted(chunks: Iterator[NDArray[np.int32]], total: int, progress: Progress) -> Iterator[NDArray[np.int32]]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        progress("numbering", done, total)


def _empty(what: str, files: Sequence[str]) -> LightRNNError:
    return LightRNNError(f"the {what} {', '.join(files)} is empty; give a text with words in it")


def read_text(sources: Sources, rules: TextRules, progress: Progress = silent) -> tuple[Vocabulary, NDArray[np.int32]]:
    """All words of some text files as a vocabulary, and the token stream, in memory and without a data folder."""
    seen, files = WordNumbers(), expand(sources)
    blocks, tokens = [], 0
    for block in (block for file in files for block in word_blocks(file, rules)):
        blocks.append(seen.of(block))
        tokens += len(block)
        progress("reading", tokens)
    if tokens <= 1:
        raise _empty("text", files)
    ids = np.concatenate(blocks)
    words = [word.decode() for word in seen]
    vocabulary, final = choose_vocabulary(words, np.bincount(ids, minlength=len(words)), rules)
    return vocabulary, final[ids]


def _cut_point(text: NumberedText, eos: int) -> int:
    """The last line's end within the first 95% of the tokens: what comes after it is held out."""
    target = int((1 - HELD_OUT_SHARE) * text.tokens)
    for end in range(target, 0, -LOOK_BACK):
        begin = max(0, end - LOOK_BACK)
        line_ends = np.flatnonzero(np.concatenate(list(text.chunks(begin, end))) == eos)
        if line_ends.size:
            return begin + int(line_ends[-1]) + 1
    raise LightRNNError(
        "the text is too short to hold out a validation part (it needs several lines); give one with --valid"
    )


def _vocabulary(
    given: Vocabulary | str | Path | None,
    words: Sequence[str],
    counts: NDArray[np.int64],
    rules: TextRules,
    min_count: int,
    max_words: int | None,
    add_words: bool,
) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The vocabulary, chosen or given, with the counts of a text, and the ids of that text's words."""
    if given is None:
        return choose_vocabulary(words, counts, rules, min_count, max_words)
    if not isinstance(given, Vocabulary):
        given = Vocabulary.read(given, rules)
    if add_words:
        if max_words is not None and max_words <= len(given):
            raise LightRNNError(
                f"--max-words counts the {len(given):,} words that are there already, got {max_words:,}; "
                "give more, or leave it out"
            )
        order = np.argsort(-counts, kind="stable")
        new = [words[i] for i in order if words[i] not in given and counts[i] >= max(min_count, 1)]
        new = new[: None if max_words is None else max_words - len(given)]
        given = given.with_words(new, np.zeros(len(new), np.int64))
    known, ids = np.zeros(len(given), np.int64), given.encode(words)
    np.add.at(known, ids, counts)
    return Vocabulary(given.words, known, rules), ids


def _describe(folder: Path, vocabulary: Vocabulary, sources: dict[str, list[str]]) -> dict[str, Any]:
    splits = {}
    for split, files in sources.items():
        path = folder / f"{split}.npy"
        if path.exists():
            counts = vocabulary.counts if split == "train" else bincount(path, len(vocabulary))
            tokens = int(counts.sum())
            splits[split] = {
                "files": [Path(file).name for file in files],
                "tokens": tokens,
                "lines": int(counts[vocabulary.eos_id]),
                "words": int(np.count_nonzero(counts)),
                "unknown": int(counts[vocabulary.unk_id]),
                "unknown_rate": float(counts[vocabulary.unk_id] / tokens),
                "sha256": sha256(path),
            }
    return {
        "format": DATA_FORMAT,
        "vocabulary_size": len(vocabulary),
        "vocabulary_digest": vocabulary.digest,
        "vocabulary_fingerprint": vocabulary.fingerprint,
        "rules": vocabulary.rules.to_dict(),
        "splits": splits,
    }


@dataclass(frozen=True)
class Corpus:
    """A data folder, opened: the vocabulary, the token streams by split, and what data.json says."""

    path: Path
    vocabulary: Vocabulary
    splits: dict[str, NDArray[np.int32]]
    info: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> "Corpus":
        """Open a data folder; a file that is not the one that data.json describes is refused, by its SHA-256.

        verify: False leaves the ids unchecked, for who has just hashed them.
        """
        path = Path(path)
        settle(path)
        described, remedy = path / DATA, "prepare the text again"
        info = read_json(described, record({"format": whole(1)}), remedy)
        if info["format"] > DATA_FORMAT:
            raise LightRNNError(
                f"{path} was prepared by a newer lightrnn (data format {info['format']}, this one {DATA_FORMAT}); "
                "upgrade lightrnn or prepare the text again"
            )
        check(info, DESCRIPTION, str(described), remedy)
        rules = TextRules.from_dict(info["rules"], str(described))
        try:
            vocabulary = Vocabulary.parse((path / "vocab.tsv").read_bytes(), "it", rules)
        except (LightRNNError, OSError) as error:
            raise LightRNNError(f"{path / 'vocab.tsv'} is damaged ({error}); prepare the text again") from None
        fingerprint = info.get("vocabulary_fingerprint", vocabulary.fingerprint)
        if vocabulary.digest != info["vocabulary_digest"] or vocabulary.fingerprint != fingerprint:
            raise LightRNNError(f"{path / 'vocab.tsv'} is not the one this data was made with; prepare the text again")
        if len(vocabulary) != info["vocabulary_size"]:
            raise LightRNNError(f"{path / 'vocab.tsv'} has another number of words than {described} says; {remedy}")
        return cls.opened(path, vocabulary, info, verify=verify)

    @classmethod
    def opened(cls, path: Path, vocabulary: Vocabulary, info: dict[str, Any], *, verify: bool) -> "Corpus":
        """A data folder of which everything but the ids is known already."""
        splits = {}
        for split in (split for split in SPLITS if split in info["splits"]):
            facts = info["splits"][split]
            if "types" in facts:  # as version 0.1.0 called them
                facts["words"] = facts.pop("types")
            splits[split] = _load_ids(path / f"{split}.npy", facts, len(vocabulary), verify)
        return cls(path, vocabulary, splits, info)

    def files(self, name: str) -> list[str]:
        """The names of the files that a split was made from."""
        return list(self._facts(name)["files"])

    def split(self, name: str) -> NDArray[np.int32]:
        if name not in self.splits:
            raise LightRNNError(
                f"{self.path} has no {name} split, only {', '.join(self.splits)}; name one of these or prepare it"
            )
        return self.splits[name]

    def _facts(self, name: str) -> dict[str, Any]:
        self.split(name)
        return cast(dict[str, Any], self.info["splits"][name])

    @property
    def untaught(self) -> list[str]:
        """The splits with unknown words, where the training text has none to learn from."""
        unknown = {name: self._facts(name)["unknown"] for name in self.splits}
        return [] if unknown["train"] else [name for name, count in unknown.items() if count]

    def with_counts(self, counts: NDArray[np.int64]) -> "Corpus":
        """The same text with other counts of its words: those of all that a model was trained on."""
        words = self.vocabulary
        if np.array_equal(counts, words.counts):
            return self
        return replace(self, vocabulary=Vocabulary(words.words, counts, words.rules))

    def digest(self, *splits: str) -> str:
        """Of all that figures made with these splits depend on: the convention, the words and rules, the ids."""
        hashes = (self._facts(name)["sha256"] for name in splits)
        return " ".join([self.vocabulary.rules.convention, self.vocabulary.digest, *hashes])

    def has_digest(self, digest: str, *splits: str) -> bool:
        """Whether it is this data that `digest` was taken of; version 0.1.0 left a convention of "stream" out in
        places, and wrote "sentence" last."""
        parts = digest.split()
        named = [part for part in parts if part in get_args(Convention)] or ["stream"]
        return " ".join(named + [part for part in parts if part not in named]) == self.digest(*splits)

    def watching(self, progress: Progress) -> Progress:
        """The same progress, which looks after the text each time that its reader reports."""

        def checked(what: str, done: int = 0, total: int = 0, /) -> None:
            progress(what, done, total)
            self.check()

        return checked

    def check(self) -> None:
        """Refuse to go on with a mapped file that has shrunk: reading what is gone would end the process."""
        for name, ids in self.splits.items():
            if isinstance(ids.base, mmap) and ids.base.size() < len(ids.base):
                raise LightRNNError(
                    f"{self.path / name}.npy was cut to {ids.base.size():,} bytes while it was being read; "
                    "put it back, or prepare the text again"
                )


def _load_ids(path: Path, facts: dict[str, Any], words: int, verify: bool) -> NDArray[np.int32]:
    try:
        check_header(path, facts["tokens"])
        ids = np.load(path, mmap_mode="r" if path.stat().st_size >= MAPPED_BYTES else None)
        ids.setflags(write=False)
        inside = True

        def within_vocabulary() -> bool:
            nonlocal inside
            inside = all(chunk.min() >= 0 and chunk.max() < words for chunk in id_chunks(path))
            return inside

        is_same = not verify or has_sha256(path, facts["sha256"], within_vocabulary)
    except OSError as error:
        raise LightRNNError(f"cannot read {path} ({error}); prepare the text again") from None
    if not inside:
        raise LightRNNError(f"{path} holds ids outside the vocabulary; prepare the text again")
    if not is_same:
        raise LightRNNError(f"{path} is damaged: its SHA-256 is not the one in {DATA}; prepare the text again")
    return cast(NDArray[np.int32], ids)
