"""Hostile and damaged files: whatever is in them, a command ends with figures or with one sentence.

Each case is a number. It decides which file of a small sound world is damaged, how, and which command reads it: to see
a case again, call `run_case(world, number, folder)` with the number in the failure.
"""

import contextlib
import gzip
import hashlib
import json
import lzma
import random
import re
import shutil
import signal
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from math import inf, nan, prod
from pathlib import Path
from typing import Any

import pytest

from helpers import made_up_text, printed, run_apart, run_here

SECONDS = 60  # that a command may take
FEW = ("--epochs", "0.2", "--hidden-size", "4", "--batch-size", "4", "--window", "6", "--threads", "1")
CASES, GROUPS = 360, 12  # in every run of the tests
MANY, MANY_GROUPS = 4000, 40  # in `make test-all`
UNREAD = (".md", ".csv")
CRASHES = 40  # each in a process of its own
Damage = Callable[[random.Random, bytes], bytes]


class TookTooLongError(BaseException):
    pass


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        raise TookTooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


# --- the world


GRID = """
epochs = 0.1
mix = true
target = "small"
[shared]
hidden_size = 4
batch_size = 4
window = 6
[[corpus]]
name = "made up"
data = "data"
[[model]]
name = "small"
[[model]]
name = "KN"
kind = "ngram"
order = 2
"""
RECIPE = (
    "[model]\nhidden_size = 4\n[training]\nbatch_size = 4\nwindow = 6\nepochs = 0.1\n[bootstrap]\nstart = 'random'\n"
)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound folder of each kind, and files of each kind."""
    root = tmp_path_factory.mktemp("world")
    with contextlib.chdir(root):
        for name, words in (("train", 500), ("valid", 120), ("test", 120)):
            Path(f"{name}.txt").write_text(made_up_text(words, 30, seed=words), encoding="utf-8")
        text = Path("test.txt").read_bytes()
        Path("test.txt.gz").write_bytes(gzip.compress(text))
        Path("test.txt.xz").write_bytes(lzma.compress(text))
        Path("nbest.tsv").write_text("".join(f"{i // 3}\t-{i}.5\tw1 w{i}\n" for i in range(9)), encoding="utf-8")
        Path("grid.toml").write_text(GRID, encoding="utf-8")
        Path("recipe.toml").write_text(RECIPE, encoding="utf-8")
        commands = (
            ("prepare", "train.txt", "--valid", "valid.txt", "--test", "test.txt", "-o", "data"),
            ("train", "data", "-o", "model", *FEW, "--refine", "cluster"),
            ("train", "data", "-o", "alone", *FEW, "--alone", "9", "--tied", "--embedding-size", "3"),
            ("train", "data", "-o", "hsm", "--model", "hsm", *FEW),
            ("train", "data", "-o", "adaptive", "--model", "adaptive", "--cell", "gru", *FEW),
            ("ngram", "data", "-o", "lm.arpa", "--order", "2"),
            ("mix", "model", "lm.arpa", "--tune", "data", "-o", "mixed"),
            ("compare", "grid.toml", "-o", "results", "--no-plots"),
        )
        with without_plots():
            for command in commands:
                printed(run_here(*command))
        shutil.copy("model/table.tsv", "table.tsv")
        shutil.copy("alone/table.tsv", "alone.tsv")
        Path("words.tsv").write_text("".join(f"w{i}\t{i}\n" for i in range(20)), encoding="utf-8")
        shutil.rmtree("results/work")
        for board in Path().rglob("tensorboard"):
            shutil.rmtree(board)
    return root


@contextlib.contextmanager
def without_plots() -> Iterator[None]:
    """Drawing takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightrnn.cli.train.find_spec", lambda name: None)
        patch.setattr("lightrnn.training.bootstrap.find_spec", lambda name: None)
        yield


MODEL_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("info", "MODEL"),
    ("info", "MODEL", "--json"),
    ("evaluate", "MODEL", "data"),
    ("evaluate", "MODEL", "test.txt", "--json"),
    ("score", "MODEL", "test.txt"),
    ("next", "MODEL", "w1 w2"),
    ("generate", "MODEL", "-n", "5", "--seed", "1"),
    ("vectors", "MODEL", "-o", "vectors.txt"),
    ("rescore", "MODEL", "nbest.tsv"),
    ("mix", "MODEL", "lm.arpa", "--tune", "valid.txt"),
    ("train", "data", "-o", "new", "--init", "MODEL", "--epochs", "0.1", "--batch-size", "4", "--window", "6"),
    ("train", "data", "-o", "MODEL", "--resume", "--epochs", "0.3"),
    ("prepare", "test.txt", "--vocab", "MODEL", "-o", "new"),
)
TABLE_COMMANDS = (
    ("table", "MODEL"),
    ("table", "MODEL", "--html", "new.html"),
    ("reallocate", "MODEL", "data", "-o", "new"),
)
RESUME = ("train", "data", "-o", "MODEL", "--resume", "--epochs", "0.3")
DATA_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("train", "data", "-o", "new", *FEW),
    ("train", "data", "-o", "model", "--resume", "--epochs", "0.3"),
    ("evaluate", "model", "data"),
    ("evaluate", "lm.arpa", "data", "--split", "valid"),
    ("ngram", "data", "-o", "new.arpa", "--order", "2"),
    ("reallocate", "model", "data", "-o", "new"),
    ("mix", "model", "lm.arpa", "--tune", "data", "--test", "data"),
)
TEXT_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("prepare", "FILE", "-o", "new"),
    ("score", "model", "FILE", "--format", "jsonl"),
    ("score", "lm.arpa", "FILE"),
    ("evaluate", "hsm", "FILE"),
    ("ngram", "FILE", "-o", "new.arpa"),
)
LM_COMMANDS = (
    ("evaluate", "FILE", "data"),
    ("score", "FILE", "test.txt", "--format", "jsonl"),
    ("next", "FILE", "w1"),
    ("mix", "model", "FILE", "--tune", "valid.txt"),
)


def readers(file: Path, model: str) -> tuple[tuple[str, ...], ...]:
    """The commands that read a file of the world."""
    if model in ("model", "alone", "hsm", "adaptive"):
        if file.name in ("training.safetensors", "metrics.jsonl"):
            return (RESUME,)
        return MODEL_COMMANDS + (TABLE_COMMANDS if model in ("model", "alone") else ())
    if model == "mixed":
        return MODEL_COMMANDS[:7] + MODEL_COMMANDS[8:10]
    by_folder = {"data": DATA_COMMANDS, "results": (("compare", "grid.toml", "-o", "results", "--tables-only"),)}
    by_name = {
        "grid.toml": (("compare", "FILE", "-o", "results", "--tables-only", "--no-plots"),),
        "recipe.toml": (
            ("train", "data", "-o", "new", "--recipe", "FILE"),
            ("info", "--recipe", "FILE", "--vocab-size", "99"),
        ),
        "table.tsv": (("train", "data", "-o", "new", "--table", "FILE", *FEW),),
        "alone.tsv": (("train", "data", "-o", "new", "--table", "FILE", *FEW),),
        "words.tsv": (("prepare", "test.txt", "--vocab", "FILE", "-o", "new"),),
        "nbest.tsv": (("rescore", "model", "FILE"), ("rescore", "lm.arpa", "FILE", "--layout", "srilm")),
        "lm.arpa": LM_COMMANDS,
    }
    return by_folder.get(model) or by_name.get(file.name, TEXT_COMMANDS)


# --- damage


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.choice((0, 1, rng.randrange(len(data) + 1), max(len(data) - 1, 0)))]


def insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return (
        data[:place] + rng.choice((rng.randbytes(9), b"\0", b"\n", b"\xff\xfe", b"\t", b"9" * 30, data)) + data[place:]
    )


def move_block(rng: random.Random, data: bytes) -> bytes:
    """Delete or repeat a block, or put zeros in its place."""
    begin = rng.randrange(len(data) + 1)
    end = min(len(data), begin + rng.choice((1, 4, 40, 400)))
    return data[:begin] + rng.choice((b"", 2 * data[begin:end], bytes(end - begin))) + data[end:]


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 10**9, 10**18, 10**30, -(10**30), 0.5, 1e300, -1e-300, nan, inf),
    *("", "1", "w1", "../model", "\ud800", "\udcff", "a\nb", "\0", "x" * 5000, "[/bold]"),
    *([], {}, [[]], [1, 2], [None], {"a": 1}),
)
DEEP = "@deep@"


def spoil(rng: random.Random, value: Any) -> Any:
    """JSON with something wrong somewhere."""
    nodes = [(None, None)]

    def walk(inner: Any) -> None:
        for key in list(inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()):
            nodes.append((inner, key))  # type: ignore[arg-type]
            walk(inner[key])

    walk(value)
    where, key = rng.choice(nodes)
    if where is None:
        return rng.choice((*ODD, DEEP))
    how = rng.randrange(5)
    if how == 0:
        del where[key]
    elif how == 1 and isinstance(where, dict):
        where[rng.choice(("", "extra", f"{key}s", "\ud800"))] = where.pop(key)
    elif how == 2 and type(where[key]) in (int, float):
        where[key] = rng.choice((where[key] + 1, -where[key], where[key] * 10**6, float(where[key]), str(where[key])))
    elif how == 3 and isinstance(where[key], list):
        where[key] = where[key] * 2
    else:
        where[key] = rng.choice((*ODD, DEEP))
    return value


def to_json(rng: random.Random, value: Any) -> bytes:
    text = json.dumps(value)
    depth = rng.choice((60, 900, 5000))
    text = text.replace(f'"{DEEP}"', "[" * depth + "]" * depth)
    if rng.random() < 0.1:
        text = text.replace("0", "1" + "0" * 5000, 1)
    if rng.random() < 0.05:
        text = text.replace("{", '{"format": 1, "format": 2, ', 1)
    return text.encode("utf-8", "backslashreplace")


def spoil_json(rng: random.Random, data: bytes) -> bytes:
    return to_json(rng, spoil(rng, json.loads(data)))


def spoil_lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = spoil_json(rng, lines[place])
    return b"\n".join(lines) + b"\n"


def spoil_toml(rng: random.Random, data: bytes) -> bytes:
    """A value, or a line, of TOML replaced."""
    lines = data.decode().splitlines()
    place = rng.choice([i for i, line in enumerate(lines) if "=" in line])
    odd = (
        "0x" + "f" * 5000,
        "nan",
        "-1",
        "[]",
        "{}",
        '""',
        '"\\u0000"',
        "1e999",
        "true",
        "1979-05-27",
        "[" * 3000,
        "[1]" * 2,
    )
    deep = ("[" * 200 + "]" * 200, "[" * 3000 + "]" * 3000, ".".join("a" * 500) + " = 1", '"[/red]"', "9" * 5000)
    lines[place] = lines[place].split("=")[0] + "= " + rng.choice((*odd, *deep))
    return "\n".join(lines).encode()


def split_tensors(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join_tensors(header: bytes, rest: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + rest


def spoil_header(rng: random.Random, data: bytes) -> bytes:
    """Names, kinds, shapes and places of tensors; the metadata."""
    header, rest = split_tensors(data)
    names = [name for name in header if name != "__metadata__"]
    name, other = rng.choice(names), rng.choice(names)
    how = rng.randrange(9)
    if how == 0:
        kinds = ("F64", "F32", "F16", "BF16", "I32", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X")
        header[name]["dtype"] = rng.choice(kinds)
    elif how == 1:
        header[name]["shape"] = rng.choice(
            ([], [-1], [0], [2**40, 2**40], header[name]["shape"][::-1], [1, *header[name]["shape"]])
        )
    elif how == 2:
        header[name]["data_offsets"] = rng.choice(([0, 0], [0, 2**60], header[other]["data_offsets"], [5, 3], [-1, 4]))
    elif how == 3:
        header[rng.choice(("", "extra", "optimizer.x.step", "optimizer.99.step", "\0", "model."))] = header.pop(name)
    elif how == 4:
        header[name], header[other] = header[other], header[name]
    elif how == 5:  # as many numbers in another shape
        count = prod(header[name]["shape"])
        header[name]["shape"] = rng.choice(([count], [1, count], [count, 1], [count, 1, 1]))
    elif how == 6:
        header["__metadata__"] = rng.choice(({}, None, [], {"facts": "{}"}, {"facts": 5, "sha256": ""}, "x"))
    elif how == 7:  # without its numbers
        begin, end = header.pop(name)["data_offsets"]
        rest = rest[:begin] + rest[end:]
        for entry in header.values():
            if "data_offsets" in entry and entry["data_offsets"][0] >= end:
                entry["data_offsets"] = [place - end + begin for place in entry["data_offsets"]]
    else:
        return join_tensors(to_json(rng, spoil(rng, header)), rest)
    return join_tensors(json.dumps(header).encode(), rest)


def spoil_numbers(rng: random.Random, data: bytes) -> bytes:
    """Values of a tensor: NaN, infinity, the largest, whole numbers out of range."""
    header, rest = split_tensors(data)
    entry = header[rng.choice([name for name in header if name != "__metadata__"])]
    begin, end = entry["data_offsets"]
    changed = bytearray(rest)
    odd = rng.choice([struct.pack("<f", x) for x in (nan, inf, 3e38, -1.0, 0.0)] + [b"\xff" * 4, b"\0\0\0\x7f"])
    for place in range(begin, max(begin + 1, end - 3), 4 if rng.random() < 0.3 else max(4, (end - begin) // 4 * 4)):
        changed[place : place + 4] = odd
    return join_tensors(json.dumps(header).encode(), bytes(changed[: len(rest)]))


def spoil_facts(rng: random.Random, data: bytes) -> bytes:
    """What training.safetensors says beside its tensors."""
    header, rest = split_tensors(data)
    facts = to_json(rng, spoil(rng, json.loads(header["__metadata__"]["facts"])))
    header["__metadata__"]["facts"] = facts.decode("utf-8", "surrogatepass")
    return join_tensors(json.dumps(header).encode(), rest)


def spoil_npy(rng: random.Random, data: bytes) -> bytes:
    header, rest = data[:128], data[128:]
    old, new = rng.choice(
        (
            (b"<i4", rng.choice((b"<i8", b">i4", b"|O8", b"<f4", b"|b1", b"<U1", b"i4"))),
            (b"False", rng.choice((b"True ", b"None ", b"9" * 5))),
            (b"shape", rng.choice((b"shope", b"descr"))),
            (b"(", rng.choice((b"(9", b"(1,", b"((", b"-", b"(" * 60))),
            (b"\x93NUMPY", rng.choice((b"PK\x03\x04\0\0", b"\x93NUMPX", b"\x80\x04\x95abc"))),
            (b"\x01\x00", rng.choice((b"\x02\x00", b"\x03\x00", b"\x09\x09"))),
            (b"v\x00", rng.choice((b"\xff\xff", b"\x00\x00", b"\x10\x00"))),
        )
    )
    if rng.random() < 0.3:  # another id
        place = rng.randrange(len(rest) // 4) * 4
        return header + rest[:place] + rng.choice((b"\xff" * 4, b"\0\0\0\x40", b"\x01\0\0\0")) + rest[place + 4 :]
    return header.replace(old, new, 1) + rest


ANY: tuple[Damage, ...] = (flip, cut, insert, move_block)


def damages(file: Path) -> tuple[Damage, ...]:
    special: dict[str, tuple[Damage, ...]] = {
        ".json": (spoil_json,) * 12,
        ".jsonl": (spoil_lines,) * 8,
        ".toml": (spoil_toml,) * 4,
        ".npy": (spoil_npy,) * 6,
        ".safetensors": (spoil_header, spoil_numbers) * 4,
    }
    facts = (spoil_facts,) * 12 if file.name == "training.safetensors" else ()
    return ANY + special.get(file.suffix, ()) + facts


def make_consistent(folder: Path, file: Path) -> None:
    """Put the digests right, so that the damage is not told by them."""
    told = folder / {"data": "data.json", "results": file.name}.get(folder.name, "config.json")
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        if file.name == "training.safetensors":
            header, rest = split_tensors(file.read_bytes())
            metadata = header["__metadata__"]
            hashed = hashlib.sha256(metadata["facts"].encode())
            for name in sorted(name for name in header if name != "__metadata__"):
                begin, end = header[name]["data_offsets"]
                hashed.update(name.encode() + rest[begin:end])
            metadata["sha256"] = hashed.hexdigest()
            file.write_bytes(join_tensors(json.dumps(header).encode(), rest))
        elif folder.name == "results":
            facts = json.loads(file.read_bytes())
            facts.pop("sha256", None)
            facts["sha256"] = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
            file.write_text(json.dumps(facts), encoding="utf-8")
        elif file != told:
            facts, digest = json.loads(told.read_bytes()), hashlib.sha256(file.read_bytes()).hexdigest()
            if told.name == "config.json":
                facts["files"][file.name] = digest
            else:
                facts["splits"][file.stem]["sha256"] = digest
            told.write_text(json.dumps(facts), encoding="utf-8")


# --- the property


def damaged_world(world: Path, seed: int, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Copy the world to `folder` and damage a file: what was done, and the command to run there."""
    rng = random.Random(seed)
    shutil.copytree(world, folder)
    file = rng.choice([path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in UNREAD])
    top = file.relative_to(folder).parts[0]
    command = rng.choice(readers(file, top))
    command = tuple(part.replace("MODEL", top).replace("FILE", file.name) for part in command)
    damage = rng.choice(damages(file))
    if rng.random() < 0.02:
        file.unlink()
        file.mkdir()
        damage_name = "a folder in its place"
    else:
        damage_name = damage.__name__
        file.write_bytes(damage(rng, file.read_bytes()))
        if rng.random() < 0.6 and (folder / top).is_dir():
            make_consistent(folder / top, file)
    return f"case {seed}: {file.relative_to(folder)}, {damage_name}; lightrnn {' '.join(command)}", command


def problem_of(code: int, out: str, err: str) -> str:
    """What is wrong with how a command ended, or nothing."""
    told = [line for line in err.splitlines() if line.startswith("error: ")]
    if "Traceback" in err:
        return "a traceback"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code == 2 and (len(told) != 1 or err.splitlines()[-1] != told[0]):
        return "exit code 2 without one sentence at the end"
    if code == 0 and re.search(r"(?i)(?<!\w)(nan|inf|infinity)(?!\w)", out):
        return "a figure that is none"
    return ""


def run_case(world: Path, seed: int, folder: Path) -> None:
    what, command = damaged_world(world, seed, folder)
    try:
        with contextlib.chdir(folder), without_plots(), warnings.catch_warnings(), within(SECONDS):
            warnings.simplefilter("error")
            result = run_here(*command)
    except (Exception, TookTooLongError):
        pytest.fail(f"{what}\n{traceback.format_exc()}")
    if problem := problem_of(*result):
        pytest.fail(f"{what}\n{problem}; exit code {result.code}\n{result.out[-2000:]}\n{result.err[-2000:]}")
    shutil.rmtree(folder)


@pytest.mark.parametrize("group", range(GROUPS))
def test_damaged_files_end_in_figures_or_one_sentence(group: int, world: Path, tmp_path: Path) -> None:
    for seed in range(group, CASES, GROUPS):
        run_case(world, seed, tmp_path / "case")


@pytest.mark.slow
@pytest.mark.parametrize("group", range(MANY_GROUPS))
def test_many_damaged_files(group: int, world: Path, tmp_path: Path) -> None:
    for seed in range(CASES + group, CASES + MANY, MANY_GROUPS):
        run_case(world, seed, tmp_path / "case")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CRASHES))
def test_damaged_tensors_do_not_crash_the_interpreter(seed: int, world: Path, tmp_path: Path) -> None:
    """In a process of its own: an optimiser that writes where it must not takes the whole process with it."""
    rng = random.Random(seed)
    folder = Path(shutil.copytree(world, tmp_path / "case"))
    model = rng.choice(("model", "alone", "hsm", "adaptive"))
    file = folder / model / rng.choice(("training.safetensors", "training.safetensors", "weights.safetensors"))
    file.write_bytes(rng.choice((spoil_header, spoil_header, spoil_numbers))(rng, file.read_bytes()))
    make_consistent(folder / model, file)
    command = RESUME if file.name == "training.safetensors" else ("evaluate", "MODEL", "data")
    arguments = [part.replace("MODEL", model) for part in command]
    result = run_apart(*arguments, folder=folder, environment={"MALLOC_CHECK_": "3"})
    problem = problem_of(*result)
    assert not problem, f"{file.relative_to(folder)}, {' '.join(command)}: {problem}\n{result.err[-2000:]}"
