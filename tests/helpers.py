"""What tests of several rooms share: made-up text and small models, the program in this process and in another, damage.

The command line is run in one way in this process (`run_here`, and the fixture `call`, which does it in a folder of the
test's own) and in one way in a process of its own (`run_apart`, and `started` where the test goes on beside it).
"""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from lightrnn.cli import main
from lightrnn.config import BootstrapConfig, ModelConfig, Recipe
from lightrnn.inference.network import NetworkLM
from lightrnn.models.checkpoint import load_training
from lightrnn.models.lightrnn import LightRNN
from lightrnn.models.sizes import weight_shapes
from lightrnn.packed.model import Network
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.presets import PRESETS
from lightrnn.text.rules import TextRules
from lightrnn.text.vocabulary import Vocabulary
from lightrnn.training import bootstrap

ROOT = Path(__file__).parents[1]
BEFORE = ROOT / "tests" / "golden" / "before"  # folders that version 0.1.0 wrote
EXTENSIONS = ROOT / "tests" / "extensions"
KENLM = ROOT / "tests" / "ngram" / "kenlm"  # what KenLM's programs wrote
CPU = torch.device("cpu")
FLOAT32 = 1e-5  # tolerance of tests: 6e-8 a step, over some hundred steps; mistakes are of another size
NOT_UTF8 = os.fsdecode(b"caf\xe9")  # what sys.argv holds of bytes that are not UTF-8
CELLS = ("lstm", "gru", "rnn-tanh", "rnn-sigmoid")

# --- text


def write(folder: Path, name: str, text: str) -> str:
    """A file with this text, and its path as a string."""
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


def corpus_folder(name: str) -> Path:
    """The folder of a real corpus, or a skip that says why."""
    root = os.environ.get("LIGHTRNN_CORPORA")
    if not root:
        pytest.skip("LIGHTRNN_CORPORA is not set: no real corpora here")
    folder = Path(root) / name
    if not folder.is_dir():
        pytest.skip(f"LIGHTRNN_CORPORA has no {name}")
    return folder


def made_up_text(words: int, vocabulary: int, seed: int) -> str:
    """Lines of 1 to 12 words drawn from a skewed distribution in which each word depends on the one before."""
    rng = np.random.default_rng(seed)
    lines, line, word = [], [], 0
    for _ in range(words):
        word = int((word + rng.zipf(2.2)) % vocabulary)
        line.append(f"w{word}")
        if rng.random() < 0.15:
            lines.append(" ".join(line))
            line = []
    return "\n".join([*lines, " ".join(line)]) + "\n"


def grouped_stream(classes: int, members: int, words: int) -> np.ndarray:
    """A text in which class follows class in a fixed cycle, its members at random: word = class + classes · member."""
    rng = np.random.default_rng(1)
    return (np.arange(words) % classes + classes * rng.integers(members, size=words)).astype(np.int32)


def prepared_corpus(name: str, preset: str, folder: Path) -> Corpus:
    """A real corpus, prepared."""
    source = corpus_folder(name)
    train, valid, test = ([str(source / f"{split}.txt.xz")] for split in ("train", "valid", "test"))
    return prepare(train, folder / name, valid=valid, test=test, rules=PRESETS[preset].rules)


Sentences = Sequence[Sequence[str]]


def made_up_sentences(words: int = 1500, seed: int = 3) -> Sentences:
    return [tuple(line.split()) for line in made_up_text(words, 25, seed).splitlines()]


def random_sentences(count: int, letters: Sequence[str], seed: int) -> Sentences:
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(letters, rng.integers(0, 9))) for _ in range(count)]


def vocabulary_with(words: Sequence[str], bos: str | None) -> Vocabulary:
    """These words, sorted, and the special ones."""
    rules = TextRules(normalize="none", bos=bos)
    listed = sorted({*words, *rules.specials})
    return Vocabulary(listed, np.zeros(len(listed), np.int64), rules)


def stream(sentences: Sentences, vocabulary: Vocabulary) -> np.ndarray:
    """The ids of all words, with the end of each sentence."""
    return vocabulary.encode([word for sentence in sentences for word in (*sentence, vocabulary.rules.eos)])


def contexts(sentences: Sentences) -> list[tuple[str, tuple[str, ...]]]:
    """Every token with all that stands before it in its sentence."""
    return [(line[i], line[:i]) for s in sentences for line in [("<s>", *s, "</s>")] for i in range(1, len(line))]


# --- tables


def random_costs(V: int, K: int, kind: str, seed: int, rows: int = 0) -> list[np.ndarray]:
    """Costs as they come: plain, with ties, with words that never occur (all zero), with huge counts."""
    rng = np.random.default_rng(seed)
    costs = [rng.gamma(1.0, 3.0, (V, n)) for n in table_shape(V, K, rows)]
    counts = np.ones(V)
    if kind == "ties":
        costs = [c.round() for c in costs]
    elif kind == "never":
        counts = (rng.random(V) < 0.5).astype(float)
    elif kind == "huge":
        counts = 10.0 ** rng.uniform(0, 6, V)
    return [(c * counts[:, None]).astype(np.float32) for c in costs]


def made_up_vocabulary(words: list[str]) -> Vocabulary:
    """These words and the special ones, with skewed counts in no order, many of them equal."""
    counts = np.random.default_rng(0).zipf(1.3, len(words) + 2).clip(max=10**7)
    return Vocabulary(["</s>", *words, "<unk>"], counts.astype(np.int64), TextRules(lowercase=True))


def members(table: WordTable, vocabulary: Vocabulary, *, row: int = -1, column: int = -1) -> list[str]:
    """The words of a row or of a column, frequent ones first, straight from the codes."""
    rest = np.ravel_multi_index(tuple(table.codes.T[1:]), table.shape[1:])
    ids = np.flatnonzero((table.codes[:, 0] == row) | (rest == column)).tolist()
    return [vocabulary.words[w] for w in sorted(ids, key=lambda w: (-vocabulary.counts[w], w))]


# --- models


def vocabulary_of(size: int) -> Vocabulary:
    """The special words and w0 …, with counts that fall."""
    rules = TextRules()
    words = [*rules.specials, *(f"w{i}" for i in range(size - len(rules.specials)))]
    return Vocabulary(words, np.arange(size, 0, -1) ** 2, rules)


def random_lightrnn(
    cell: str = "lstm",
    V: int = 23,
    K: int = 2,
    layers: int = 1,
    bias: bool = True,
    seed: int = 0,
    rows: int = 0,
    units: int = 7,
    alone: int = 0,
    tied: bool = False,
    head: int = 0,
    word_bias: bool = False,
) -> LightRNN:
    """V words in a table of K components at random, all weights at random, ready to score."""
    torch.manual_seed(seed)
    sizes = {"layers": layers, "hidden_size": units, "embedding_size": 5, "alone": alone, "tied": tied, "head": head}
    biases = {"output_bias": bias, "word_bias": word_bias}
    config = ModelConfig(cell=cell, components=K, rows=rows, dropout=0.3, **sizes, **biases)
    apart = np.random.default_rng(seed + 1).permutation(V)[:alone]
    model = LightRNN(config, WordTable.random(V, K, rows, seed=seed, alone=apart))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)  # biases too, and large: nothing hides in the linear range
    return model.eval()


def lm_of(V: int = 23, K: int = 2, **settings: object) -> NetworkLM:
    """A `random_lightrnn` with words."""
    return NetworkLM(random_lightrnn(V=V, K=K, **settings), vocabulary_of(V))  # type: ignore[arg-type]


def network_of(model: LightRNN, vocabulary: Vocabulary) -> Network:
    """What `pack` takes, of a model in memory."""
    state, table = model.state_dict(), model.table
    weights = {name: state[name].numpy() for name in weight_shapes(model.config, table.shape, table.alone, len(table))}
    return Network(model.config, vocabulary, weights, table, {"valid_perplexity": 12.5})


SMALL_RECIPE = Recipe(bootstrap=BootstrapConfig(refine="none")).override(
    {"hidden_size": 8, "batch_size": 4, "window": 10, "epochs": 1}
)
SMALL = (  # the same as options
    *("--hidden-size", "8", "--batch-size", "4", "--window", "10", "--epochs", "1", "--threads", "1"),
    *("--refine", "none"),
)
FAST = Recipe(bootstrap=BootstrapConfig(start="random", refine="none")).override(
    {"hidden_size": 12, "batch_size": 4, "window": 10, "epochs": 3, "dropout": 0.2, "learning_rate": 0.02}
)
ROUNDS = FAST.override({"start": "bigram", "refine": "cluster", "rounds": 2, "round_share": 0.3})
MATCHING_ROUNDS = SMALL_RECIPE.override(
    {
        **{"validate_every": 20, "learning_rate": 0.02, "start": "random"},
        **{"refine": "matching", "rounds": 2, "round_share": 0.3},
    }
)


def train_small(corpus: Corpus, folder: Path, **fields: Any) -> Path:
    """Train a small model for a moment, by `SMALL_RECIPE` with some fields changed."""
    bootstrap.train(corpus, SMALL_RECIPE.override(fields), folder, device=CPU)
    return folder


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def outcome_of(folder: Path) -> dict[str, Any]:
    """What must be equal bit for bit, however often a run was stopped: all but the timings."""
    timeless = [
        {name: value for name, value in line.items() if "seconds" not in name and name != "words_per_second"}
        for line in metrics(folder)
    ]
    names = ("weights.safetensors", "table.tsv", "vocab.tsv", "config.json")
    files = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    tensors = {name: tensor.numpy().tobytes() for name, tensor in load_training(folder)[0].items()}
    return files | {"metrics": timeless, "tensors": tensors}


# --- the program


class Result(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Result]
Refusal = Callable[..., str]
TIMEOUT = 120  # seconds: many times what any process here needs, so that one that hangs does not hang the tests


def run_here(*arguments: object, stdin: bytes = b"") -> Result:
    """The program in this process; an exception that is not an exit goes on, as the traceback that it would be."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    on_terminate = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lightrnn", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
                main()
        finally:
            signal.signal(signal.SIGTERM, on_terminate)
    for written in (out, err):
        written.flush()
    return Result(int(stopped.value.code or 0), *(written.buffer.getvalue().decode() for written in (out, err)))


@contextmanager
def started(
    *arguments: object,
    script: str = "",
    folder: Path | None = None,
    terminal: int | None = None,
    environment: dict[str, str | None] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """The program, or a script in its place, in a process of its own; killed at the end if it has not ended by then.

    What is None in `environment` is taken away from it.
    """
    streams = subprocess.PIPE if terminal is None else terminal
    settings = os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {})
    command = [sys.executable, *(("-c", script) if script else ("-m", "lightrnn")), *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={name: value for name, value in settings.items() if value is not None},
        stdin=streams,
        stdout=streams,
        stderr=streams,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run_apart(*arguments: object, stdin: str | None = None, **options: Any) -> Result:
    """As `started`, to the end."""
    with started(*arguments, **options) as process:
        out, err = process.communicate(stdin, timeout=TIMEOUT)
        return Result(process.returncode, out, err)


def wait_for(condition: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    """Until something is so, as long as a process that is to make it so lives."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def printed(result: Result) -> str:
    """What a command that must not fail has printed."""
    assert result.code == 0, result.err
    return result.out


def refused(result: Result, *, notes: bool = False) -> str:
    """The one sentence of a command that must fail; notes on the way to it only where they are allowed."""
    assert result.code == 2, result
    *before, sentence = [line for line in result.err.splitlines() if line.strip()]
    assert notes or not before, result.err
    assert re.match(r"error: .{10,}", sentence), result.err
    assert "Traceback" not in result.err
    return sentence


# --- folders


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, hidden or not: the bytes of each file, None for a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def hidden(folder: Path) -> list[str]:
    """Temporaries, retired folders, locks."""
    return sorted(path.name for path in folder.rglob(".*"))


@dataclass(frozen=True)
class World:
    """Texts, data folders and trained models that tests of bad input share and none may change."""

    root: Path
    train: Path
    valid: Path
    other: Path
    empty: Path
    data: Path
    model: Path
    other_data: Path
    other_model: Path
    opponent: Path


# --- damage


def edit_json(path: Path, change: Callable[[Any], object]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def set_fields(path: Path, **fields: Any) -> None:
    """Replace some fields of a JSON object; None removes one."""

    def change(value: dict[str, Any]) -> None:
        value.update(fields)
        for name in [name for name, field in fields.items() if field is None]:
            del value[name]

    edit_json(path, change)


def flip_bit(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
