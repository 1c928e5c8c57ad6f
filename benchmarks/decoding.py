"""Word error rates of a decoder with language models and without: flashlight-text's, letters to words; one run.

    python benchmarks/decoding.py MODEL… --text TEXT [--sentences 100] [--noise 0.3] [--beam 50] [--stream]

The sentences of TEXT that the first model knows all words of are spelled as frames, a letter for one or two of them and
sometimes a blank, a separator between words. A frame is seen through noise: a vector with 1 at its letter and Gaussian
noise of this deviation everywhere. Emissions are the exact log-likelihoods of that, so the weight of a model's log10 is
ln 10 and nothing is tuned. The lexicon is the first model's vocabulary; without a model all its words are as likely.

Printed: the share of words that are wrong (edit distance) with no model and with each MODEL, and CPU seconds an
utterance. An ARPA file is read by flashlight's own KenLM, all else by `lightrnn.decoders`. --stream: the first model
again, each utterance after what was understood of those before it.
"""

import argparse
import time
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from flashlight.lib.text.decoder import (
    LM,
    CriterionType,
    LexiconDecoder,
    LexiconDecoderOptions,
    SmearingMode,
    Trie,
    ZeroLM,
)
from flashlight.lib.text.decoder.kenlm import KenLM
from flashlight.lib.text.dictionary import Dictionary
from numpy.typing import NDArray

import lightrnn
from lightrnn import decoders
from lightrnn.files import read_blocks
from lightrnn.runtime import use_threads
from lightrnn.text.vocabulary import Vocabulary

BLANK, SEPARATOR = 0, 1


class Spelling:
    """The words that can be understood, and their letters by number; a blank and a separator come first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.words = [word for word in vocabulary.words if word not in vocabulary.rules.specials]
        self.indices = {word: index for index, word in enumerate(self.words)}
        letters = sorted(set().union(*self.words))
        self._numbers = {letter: number for number, letter in enumerate(letters, 2)}
        self.size = len(letters) + 2

    def spell(self, word: str) -> list[int]:
        """A word's letters, and the separator after it; between equal letters there is a blank already."""
        return [*(self._numbers[letter] for letter in word), SEPARATOR]

    def emissions(self, sentence: list[str], noise: float, random: np.random.Generator) -> NDArray[np.float32]:
        """(T, N): log-likelihoods of the frames of a sentence, up to a constant each."""
        frames: list[int] = [SEPARATOR]
        for number in (number for word in sentence for number in self.spell(word)):
            if frames[-1] == number or random.random() < 0.3:
                frames.append(BLANK)
            frames += [number] * int(random.integers(1, 3))
        seen = np.eye(self.size)[frames] + noise * random.normal(size=(len(frames), self.size))
        return np.asarray(seen / noise**2, np.float32)


def decoder_of(spelling: Spelling, model: LM, weight: float, beam: int) -> LexiconDecoder:
    trie = Trie(spelling.size, SEPARATOR)
    start = model.start(False)
    for index, word in enumerate(spelling.words):
        trie.insert(spelling.spell(word)[:-1], index, weight and model.score(start, index)[1])
    trie.smear(SmearingMode.MAX)
    options = LexiconDecoderOptions(
        beam_size=beam,
        beam_size_token=20,
        beam_threshold=100.0,
        lm_weight=weight,
        word_score=0.0 if weight else -log(len(spelling.words)),
        unk_score=-np.inf,
        sil_score=0.0,
        log_add=False,
        criterion_type=CriterionType.CTC,
    )
    return LexiconDecoder(options, trie, model, SEPARATOR, BLANK, -1, [], False)


def model_of(path: Path, words: list[str]) -> LM:
    if path.suffix != ".arpa":
        return decoders.FlashlightLM(lightrnn.load(path), words)
    dictionary = Dictionary()
    for word in words:
        dictionary.add_entry(word)
    return KenLM(str(path), dictionary)


def understood(decoder: LexiconDecoder, spelling: Spelling, emissions: NDArray[np.float32]) -> list[str]:
    best = decoder.decode(emissions.ctypes.data, *emissions.shape)[0]
    return [spelling.words[index] for index in best.words if index >= 0]


def errors(said: list[str], heard: list[str]) -> int:
    """Words to put in, leave out or replace, at least."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        before, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (word != other)))
    return row[-1]


class Scores:
    """What a decoder with one model came to."""

    def __init__(self, name: str) -> None:
        self.name, self.wrong, self.words, self.seconds, self.utterances = name, 0, 0, 0.0, 0

    def add(self, said: list[str], heard: list[str], seconds: float) -> None:
        self.wrong += errors(said, heard)
        self.words += len(said)
        self.seconds += seconds
        self.utterances += 1

    def __str__(self) -> str:
        rate, each = 100 * self.wrong / self.words, self.seconds / self.utterances
        return f"{self.name:40} {rate:5.1f}% of {self.words:,} words wrong   {each:6.2f} s an utterance"


def decode(
    name: str, spelling: Spelling, model: LM, said: list[list[str]], noise: float, beam: int, *, follows: bool = False
) -> Scores:
    decoder = decoder_of(spelling, model, 0.0 if isinstance(model, ZeroLM) else log(10), beam)
    scores, random = Scores(name), np.random.default_rng(1)
    state: Any = model.lm.stream_state() if follows else None
    for sentence in said:
        emissions = spelling.emissions(sentence, noise, random)
        if follows:
            model.follow(state)
        begin = time.process_time()
        heard = understood(decoder, spelling, emissions)
        scores.add(sentence, heard, time.process_time() - begin)
        if follows:
            words = model.lm.vocabulary.encode([*heard, model.lm.vocabulary.rules.eos])
            _, state = model.lm.read_words(state, words)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--beam", type=int, default=50)
    parser.add_argument("--stream", action="store_true")
    arguments = parser.parse_args()
    use_threads(1)
    first = lightrnn.load(arguments.models[0])
    spelling = Spelling(first.vocabulary)
    lines = [line.split() for line in b"".join(read_blocks(arguments.text)).decode().splitlines()]
    known = [line for line in lines if line and all(word in spelling.indices for word in line)]
    said = known[: arguments.sentences]
    how = (said, arguments.noise, arguments.beam)
    print(f"{len(said)} sentences, {len(spelling.words):,} words, {spelling.size} letters, beam {arguments.beam}")
    print(decode("no model", spelling, ZeroLM(), *how), flush=True)
    for path in arguments.models:
        print(decode(str(path), spelling, model_of(path, spelling.words), *how), flush=True)
    if arguments.stream:
        model = decoders.FlashlightLM(first, spelling.words)
        print(decode(f"{arguments.models[0]}, context carried", spelling, model, *how, follows=True))


if __name__ == "__main__":
    main()
