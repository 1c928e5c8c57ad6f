"""Perplexity against bytes: LightRNNs in one file each beside KenLM's binaries, every file on disk counted whole.

    LIGHTRNN_CORPORA=… python benchmarks/bytes.py wikitext-2 --work runs/bytes --programs kenlm/build/bin
    LIGHTRNN_CORPORA=… python benchmarks/bytes.py wikitext-2 --work runs/bytes small.lightrnn medium.lightrnn

The first line measures n-gram models, of KenLM's own `lmplz` and `build_binary` (the sdist of the Python package kenlm
has their sources; cmake builds them); the second adds LightRNNs, packed files or folders, which are packed in int8.
What is measured is kept in docs/results/bytes/CORPUS.json and not measured again; the table and the plot are made of
all of it. Both sides have the vocabulary of the data folders in the work folder and score each line of the test text by
itself, its end included; LightRNN with the context carried from line to line is a row of its own. Models for it, of
which `data-sentence` makes those that are trained on lines by themselves, and `data` those that carry the context:

    lightrnn train runs/bytes/wikitext-2/data-sentence -o small-sentence --recipe small --minutes 10
    lightrnn train runs/bytes/wikitext-2/data -o small --recipe small --minutes 10
    (and so on, with --recipe tiny, medium, and for eltec-en-1m)
"""

import argparse
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lightrnn
from corpora import corpus_folder
from lightrnn.plot import Plot
from lightrnn.text.corpus import Corpus, prepare
from lightrnn.text.presets import PRESETS

PRESET = {"wikitext-2": "wikitext", "ptb": "ptb"}  # of a corpus whose unknown words are <unk> in its text already
ORDERS = (5, 4, 3, 2)
PRUNED = ("0", "0 0 1", "0 0 2", "0 1", "0 3", "0 10")
BINARIES = {"probing": ["probing"], "trie": ["trie"], "quantised trie": ["-q", "8", "-b", "8", "-a", "22", "trie"]}
UNKNOWN = "<rare>"  # what lmplz, which refuses <unk> in a text, is given in its place
KEPT = Path(__file__).parents[1] / "docs" / "results" / "bytes"
BAR_BYTES = 2_000_000

Row = dict[str, Any]  # model, file, bytes, convention, perplexity


def data_of(name: str, work: Path) -> Corpus:
    """The corpus, prepared once for each convention; all but the convention is the same."""
    source = corpus_folder(name)
    train, valid, test = ([str(source / f"{split}.txt.xz")] for split in ("train", "valid", "test"))
    rules = PRESETS[PRESET.get(name, "ptb")].rules
    folder = work / name / "data"
    for path, its in ((folder, rules), (folder.with_name("data-sentence"), replace(rules, convention="sentence"))):
        if not path.exists():
            prepare(train, path, valid=valid, test=test, rules=its)
    return Corpus.load(folder)


def sentences(corpus: Corpus, split: str) -> list[str]:
    """The lines of a split under the corpus's vocabulary, as lmplz and KenLM are given them."""
    names = list(corpus.vocabulary.words)
    names[corpus.vocabulary.unk_id], names[corpus.vocabulary.eos_id] = UNKNOWN, "\n"
    text = " ".join([names[word] for word in corpus.split(split).tolist()])
    return [line.strip() for line in text.split("\n")[:-1]]


def measure_ngrams(corpus: Corpus, programs: Path, folder: Path, rows: list[Row], keep: Path) -> None:
    """Every binary of every n-gram model that is not among the rows yet."""
    import kenlm

    text, arpa, binary = folder / "train.txt", folder / "lm.arpa", folder / "lm.binary"
    text.write_text("".join(f"{line}\n" for line in sentences(corpus, "train")), encoding="utf-8")
    test = sentences(corpus, "test")
    known = {(row["model"], row["file"]) for row in rows}
    for order in ORDERS:
        for prune in [thresholds for thresholds in PRUNED if len(thresholds.split()) <= order]:
            model = f"KN-{order}" + f", pruned {prune}" * (prune != "0")
            if known >= {(model, sort) for sort in BINARIES}:
                continue
            limits = ["-S", "1G", "-T", str(folder / "sort"), "--prune", *prune.split()]
            run(programs / "lmplz", "-o", order, *limits, "--text", text, "--arpa", arpa)
            for sort, options in BINARIES.items():
                run(programs / "build_binary", "-T", folder / "sort", *options, arpa, binary)
                scorer = kenlm.Model(str(binary))
                log10 = math.fsum(scorer.score(line) for line in test)
                perplexity = 10 ** (-log10 / len(corpus.split("test")))
                add(rows, keep, model, sort, binary.stat().st_size, "sentence", perplexity)


def run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def add(rows: list[Row], keep: Path, *facts: object) -> None:
    row = dict(zip(("model", "file", "bytes", "convention", "perplexity"), facts, strict=True))
    rows.append(row)
    keep.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(
        f"{row['model']:24} {row['file']:16} {row['bytes']:12,} {row['convention']:9} {row['perplexity']:8.1f}",
        flush=True,
    )


def measure_network(path: Path, corpus: Corpus, folder: Path, rows: list[Row], keep: Path) -> None:
    """A packed LightRNN, or one to be packed, in both conventions."""
    if path.is_dir():
        packed = folder / f"{path.name}.lightrnn"
        packed.unlink(missing_ok=True)
        run(sys.executable, "-m", "lightrnn", "pack", path, "-o", packed)
        path = packed
    lm = lightrnn.load(path)
    if sorted(lm.vocabulary.words) != sorted(corpus.vocabulary.words):
        sys.exit(f"{path} has other words than {corpus.path}; train it on that folder")
    model = f"LightRNN {path.stem}"
    rows[:] = [row for row in rows if row["model"] != model]
    ids = lm.vocabulary.encode([corpus.vocabulary.words[word] for word in corpus.split("test").tolist()])
    for convention in ("sentence", "stream"):
        perplexity = lm.evaluate(ids, convention).perplexity
        add(rows, keep, model, "int8", path.stat().st_size, convention, perplexity)


def table(rows: list[Row]) -> str:
    """Every LightRNN beside the best n-gram file that is not larger, or than the bar where it is smaller."""
    heads = "LightRNN", "bytes", "perplexity", "context carried", "best n-gram file of at most its size or 2 MB"
    lines = [f"| {' | '.join(heads)} | bytes | perplexity | ratio |", "|---|---|---|---|---|---|---|---|"]
    light = {(row["model"], row["convention"]): row for row in rows if row["file"] == "int8"}
    for (model, convention), row in sorted(light.items(), key=lambda item: item[1]["bytes"]):
        if convention != "sentence":
            continue
        room = max(row["bytes"], BAR_BYTES)
        others = [other for other in rows if other["file"] in BINARIES and other["bytes"] <= room]
        carried = light[model, "stream"]["perplexity"]
        told = f"| {model} | {row['bytes']:,} | {row['perplexity']:.1f} | {carried:.1f} |"
        if others:
            best = min(others, key=lambda other: other["perplexity"])
            ratio = row["perplexity"] / best["perplexity"]
            told += f" {best['model']}, {best['file']} | {best['bytes']:,} | {best['perplexity']:.1f} | {ratio:.2f} |"
        else:
            told += " none | | | |"
        lines.append(told)
    lines += ["", "| n-gram files that none beats in both | file | bytes | perplexity |", "|---|---|---|---|"]
    for row in frontier([row for row in rows if row["file"] in BINARIES]):
        lines.append(f"| {row['model']} | {row['file']} | {row['bytes']:,} | {row['perplexity']:.1f} |")
    return "\n".join(lines)


def frontier(rows: list[Row]) -> list[Row]:
    """Those than which none is both smaller and better, by size."""
    best, found = np.inf, []
    for row in sorted(rows, key=lambda row: (row["bytes"], row["perplexity"])):
        if row["perplexity"] < best:
            best = row["perplexity"]
            found.append(row)
    return found


def draw(rows: list[Row], path: Path) -> None:
    """Every file a point, and for each side what is best at most at a size."""
    plot = Plot("bytes on disk", "test perplexity")

    def add_points(some: list[Row], marks: str, **style: str) -> None:
        plot.axes.plot([row["bytes"] for row in some], [row["perplexity"] for row in some], marks, **style)

    for sort in BINARIES:
        add_points([row for row in rows if row["file"] == sort], ".", label=f"KenLM, {sort}")
    add_points(frontier([row for row in rows if row["file"] in BINARIES]), "-", color="grey", drawstyle="steps-post")
    for convention, label, colour in (("sentence", "LightRNN", "C3"), ("stream", "LightRNN, context carried", "C4")):
        light = [row for row in rows if row["file"] == "int8" and row["convention"] == convention]
        add_points(light, "o", color=colour, label=label)
        add_points(frontier(light), "-", color=colour, drawstyle="steps-post")
    plot.axes.set_xscale("log")
    plot.axes.set_yscale("log")
    plot.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="the name of a corpus: wikitext-2, eltec-en-1m, …")
    parser.add_argument("models", nargs="*", type=Path, help="packed LightRNNs, or folders of lightrnn train")
    parser.add_argument("--work", type=Path, required=True, help="a folder for data and models")
    parser.add_argument("--programs", type=Path, help="the folder of lmplz and build_binary; without it no n-grams")
    parser.add_argument("-o", "--out", type=Path, default=KEPT, help="where figures are kept and drawn")
    arguments = parser.parse_args()
    keep = arguments.out / f"{arguments.corpus}.json"
    keep.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = json.loads(keep.read_text(encoding="utf-8")) if keep.exists() else []
    corpus = data_of(arguments.corpus, arguments.work)
    if arguments.programs:
        measure_ngrams(corpus, arguments.programs, arguments.work / arguments.corpus, rows, keep)
    for model in arguments.models:
        measure_network(model, corpus, arguments.work / arguments.corpus, rows, keep)
    print(table(rows))
    draw(rows, keep.with_suffix(".png"))


if __name__ == "__main__":
    main()
