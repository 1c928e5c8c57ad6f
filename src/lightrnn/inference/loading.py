"""From a path to a model that can be asked: a folder of `lightrnn train`, a packed file, an n-gram file, a mix.

A mix is a folder with a config.json that names its models, by paths relative to the folder, and their weights. A cache
among them has no path: it goes with the first network.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments import path_of
from ..border import check, file_name, list_of, number, record, whole
from ..container import is_packed, read_about, read_parts
from ..errors import LightRNNError
from ..files import read_blocks, read_json, write_json
from ..models.folder import CONFIG
from ..ngram import packed as packed_ngram
from ..ngram.arpa import read_arpa
from ..ngram.kenlm import is_binary, load_binary
from ..outputs import replace_output, settle
from ..packed.model import unpack
from ..runtime import choose_device
from ..text.vocabulary import Vocabulary
from .cache import FLATNESS, LARGEST, CacheName
from .lm import LM
from .network import NetworkLM
from .ngrams import NGramLM

if TYPE_CHECKING:
    from .mixture import Mix

MIX_FORMAT = 2  # 1 had no caches
Member = str | Path | CacheName
DEEPEST = 8  # mixes inside each other …
MOST = 1000  # … and models in all
MEMBERS = record(
    {
        "members": list_of(
            record(
                {"weight": number(least=0, most=1e6)},
                {"path": file_name(), "cache": whole(1, LARGEST), "flatness": number(least=1e-6, most=1e6)},
            ),
            least=1,
            most=1000,
        )
    }
)


def load(path: str | Path, *, device: str = "cpu", vocabulary: Vocabulary | None = None) -> LM:
    """The model at a path, whatever its kind, ready to score; device: auto, cpu or cuda, where texts are scored.

    A file is one of `lightrnn pack` or `lightrnn ngram`, an ARPA file, or a binary for the `kenlm` package. A binary
    that was built without its words needs a vocabulary, which `lightrnn mix` takes from the first model.
    """
    if device not in ("auto", "cpu"):
        choose_device(device)  # fails now rather than later
    return _load(path_of("path", path), device, vocabulary, ())


def _load(path: Path, device: str, vocabulary: Vocabulary | None, outer: tuple[Path, ...]) -> LM:
    """outer: the mixes that it is in."""
    settle(path)
    if not path.exists():
        raise LightRNNError(
            f"{path} does not exist; give a folder of lightrnn train or mix, or a packed or n-gram file"
        )
    if path.is_file():
        return _load_file(path, device, vocabulary)
    if is_mix(path):
        return _load_mix(path, device, outer)
    return NetworkLM.load(path, device)


def _load_file(path: Path, device: str, vocabulary: Vocabulary | None) -> LM:
    if is_packed(path):
        return _load_packed(path, device)
    if is_binary(path):
        return NGramLM(load_binary(path, vocabulary))
    if ".arpa" not in path.suffixes and not next(read_blocks(path), b"").lstrip().startswith(b"\\data\\"):
        raise LightRNNError(
            f"{path} is not a model: no packed file, ARPA file or KenLM binary; give one, or a folder of lightrnn train"
        )
    return NGramLM(read_arpa(path))


def _load_packed(path: Path, device: str) -> LM:
    parts = read_parts(path.read_bytes(), str(path))
    about = read_about(parts, str(path))
    if about["kind"] == packed_ngram.KIND:
        return NGramLM(packed_ngram.unpack(parts, about, str(path)))
    return NetworkLM.of_packed(unpack(parts, about, str(path)), device)


def load_all(names: Sequence[Member], *, device: str = "cpu") -> list[LM]:
    """Several models, the first of which says which words there are; a cache reads along with the first network."""
    return _load_all([member_of(name) for name in names], device, ())


def member_of(name: Member) -> Path | CacheName:
    """What may be named in a mix: a cache, cache:SIZE or cache:SIZE:FLATNESS, or the path of a model."""
    return name if isinstance(name, CacheName) else CacheName.parse(str(name)) or path_of("a model", name)


def _load_all(members: Sequence[Path | CacheName], device: str, outer: tuple[Path, ...]) -> list[LM]:
    if isinstance(members[0], CacheName):
        raise LightRNNError(f"{members[0]} cannot be the first of a mix; name the model that it goes with before it")
    first = _load(members[0], device, None, outer)
    found = {0: first}
    for index, member in enumerate(members):
        if index and isinstance(member, Path):
            found[index] = _load(member, device, first.vocabulary, outer)
    network = next((lm for lm in found.values() if isinstance(lm, NetworkLM)), None)
    for index, member in enumerate(members):
        if isinstance(member, CacheName):
            if network is None:
                raise _without_network(member)
            found[index] = member.of(network)
    return [found[index] for index in range(len(members))]


def _is_network(path: Path) -> bool:
    if path.is_dir():
        return not is_mix(path)
    return (
        is_packed(path) and read_about(read_parts(path.read_bytes(), str(path)), str(path))["kind"] != packed_ngram.KIND
    )


def _without_network(cache: CacheName) -> LightRNNError:
    return LightRNNError(f"{cache} needs a network to go with; name the model itself, not a mix with it")


def save_mix(
    folder: str | Path,
    members: Sequence[Member],
    weights: Sequence[float],
    *,
    force: bool = False,
    option: str = "folder",
) -> None:
    """Write a mix: the models stay where they are. If there is a model in `folder` already, `force` replaces it.

    option: by which the folder was given, for the messages.
    """

    def described(member: Path | CacheName) -> dict[str, Any]:
        if isinstance(member, CacheName):
            return {"cache": member.size, "flatness": member.flatness or FLATNESS}
        place = member.parent.resolve() / member.name
        return {"path": os.path.relpath(place, Path(folder).resolve())}

    from .mixture import check_members

    check_members(members, weights)
    found = [member_of(member) for member in members]
    if isinstance(found[0], CacheName):
        raise LightRNNError(f"{found[0]} cannot be the first of a mix; name the model that it goes with before it")
    paths = [member for member in found if isinstance(member, Path)]
    for path in paths:
        settle(path)
        if not path.exists():
            raise LightRNNError(f"{path} does not exist; give models that a mix can find")
    for cache in (member for member in found if isinstance(member, CacheName)):
        if not any(map(_is_network, paths)):
            raise _without_network(cache)
    with replace_output(folder, "model", inputs=all_members(members), force=force, option=option) as stage:
        listed = [{**described(member), "weight": weight} for member, weight in zip(found, weights, strict=True)]
        version = MIX_FORMAT if any(isinstance(member, CacheName) for member in found) else 1
        write_json(stage / CONFIG, {"format": version, "kind": "mix", "files": {}, "members": listed})


def all_members(names: Sequence[Member], deepest: int = DEEPEST) -> list[Path]:
    """Models, and where there is a mix among them, the models that it is made of; caches left out."""
    found: list[Path] = []
    for path in (member for member in map(member_of, names) if isinstance(member, Path)):
        settle(path)
        found += [path, *(all_members(read_mix(path)[0], deepest - 1) if deepest and is_mix(path) else [])]
        if len(found) > MOST:
            raise LightRNNError(f"{path} and others make a mix of more than {MOST:,} models; mix fewer")
    return found


def is_mix(folder: Path) -> bool:
    settle(folder)
    return (folder / CONFIG).is_file() and read_json(folder / CONFIG).get("kind") == "mix"


def read_mix(folder: Path) -> tuple[list[Path | CacheName], list[float]]:
    """The models of a mix, which need not be there, its caches, and their weights."""
    path, remedy = folder / CONFIG, "restore it or make it again"
    config = read_json(path, record({"format": whole(1)}), remedy)
    if config["format"] > MIX_FORMAT:
        raise LightRNNError(f"{folder} was written by a newer lightrnn (mix format {config['format']}); upgrade it")
    members = check(config, MEMBERS, str(path), remedy)["members"]
    weights = [float(member["weight"]) for member in members]
    if not sum(weights) > 0:
        raise LightRNNError(f"{path}: all weights are 0; {remedy}")
    if "cache" in members[0] or not all(("path" in member) != ("cache" in member) for member in members):
        raise LightRNNError(f"{path}: every member must have either a path or a cache, the first a path; {remedy}")
    return [
        folder / member["path"] if "path" in member else CacheName(member["cache"], member.get("flatness", FLATNESS))
        for member in members
    ], weights


def _load_mix(folder: Path, device: str, outer: tuple[Path, ...]) -> "Mix":
    from .mixture import Mix

    members, weights = read_mix(folder)
    if not outer:
        all_members([folder])  # which are not too many
    outer = (*outer, folder.resolve())
    for path in (member for member in members if isinstance(member, Path)):
        settle(path)
        if not path.exists():
            raise LightRNNError(f"{folder} is a mix of which a model is not there, {path}; restore that or mix again")
        if path.resolve() in outer or len(outer) > DEEPEST:
            raise LightRNNError(f"{folder} is a mix that contains itself, or mixes in mixes too often; mix again")
    return Mix(_load_all(members, device, outer), weights)
