"""The conventions of known corpora: text rules, vocabulary cut-off, and where a release keeps its splits."""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LightRNNError
from ..files import Sources, expand, is_text_shard, listed, refuse_no_text
from .rules import TextRules


@dataclass(frozen=True)
class Preset:
    """What `lightrnn prepare --preset NAME` fixes.

    layout: for each split a glob inside the corpus's folder, tried when one folder is all that is given.
    """

    name: str
    about: str
    rules: TextRules = field(default_factory=lambda: TextRules(normalize="none"))
    min_count: int = 1
    layout: tuple[str, str, str] = ("*train*", "*valid*|*dev*", "*test*")


PLAIN = Preset("", "any other text", rules=TextRules())
PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("ptb", "Penn Treebank as prepared by Mikolov: 10,000 words, rare ones already <unk>"),
        Preset("wikitext", "WikiText-2 and -103: <unk> in the text, empty lines count as one </s> each"),
        Preset("aclw", "ACLW 2013 as prepared by Kim et al. 2015: train.txt, valid.txt, test.txt; singletons <unk>"),
        Preset(
            "billionw",
            "One Billion Words: words under 3 occurrences are <UNK>, each sentence scored afresh after <S>",
            rules=TextRules(normalize="none", eos="</S>", unk="<UNK>", bos="<S>", convention="sentence"),
            min_count=3,
            layout=(
                "training-monolingual.tokenized.shuffled/news.en-*-of-00100*",
                "heldout-monolingual.tokenized.shuffled/news.en.heldout-00001-of-00050*",
                "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050*",
            ),
        ),
    )
}


def find_preset(name: str | None) -> Preset:
    """A preset by its name; without one, the rules for any text."""
    if name is None:
        return PLAIN
    if name not in PRESETS:
        known = "; ".join(f"{key} ({preset.about})" for key, preset in PRESETS.items())
        raise LightRNNError(f"there is no preset {name!r}; known are {known}")
    return PRESETS[name]


def find_splits(folder: Path, layout: tuple[str, str, str] = Preset.layout) -> tuple[list[str], ...] | None:
    """The train, valid and test files of a corpus folder ([] for a missing one), or None where it has no such layout.

    A folder is a corpus, not a heap of shards, when its names tell training from held-out text; this keeps
    `lightrnn prepare FOLDER` from ever training on the test text.
    """
    train, valid, test = (
        sorted(str(p) for pattern in patterns.split("|") for p in folder.glob(pattern) if is_text_shard(p))
        for patterns in layout
    )
    return (train, valid, test) if train and (valid or test) else None


def choose_splits(
    train: Sources, valid: Sources = (), test: Sources = (), preset: Preset = PLAIN
) -> tuple[list[str], ...]:
    """The files of each split: those named, and where one corpus folder is given, those that lie in it."""
    sources = listed(train)
    folder = Path(sources[0]) if len(sources) == 1 and Path(sources[0]).is_dir() else None
    if folder:
        refuse_no_text(folder)
    found = find_splits(folder, preset.layout) if folder else None
    if folder and not found and preset is not PLAIN:
        raise LightRNNError(
            f"{folder} is not laid out as --preset {preset.name} expects ({', '.join(preset.layout)}); "
            "name the files with TRAIN, --valid and --test"
        )
    if found and not (listed(valid) or found[1]):
        raise LightRNNError(f"{folder} has a training and a test text but no validation text; add --valid FILE")
    in_train, in_valid, in_test = found or (expand(sources), [], [])
    return in_train, expand(valid) or in_valid, expand(test) or in_test
