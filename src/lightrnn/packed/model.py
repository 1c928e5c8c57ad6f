"""A trained LightRNN as one file, and back: what `lightrnn pack` writes, read without PyTorch. docs/packed-format.md.

    about     what it is: settings, text rules, the table's shape, how it was trained, how the weights lie
    words     the words in byte order;  counts  how often each was seen;  places  where each stands in the table
    weights   the numbers of the network

Words are packed in byte order, so that those beside each other share most of their letters; their ids follow from the
counts, and are not those of the folder that was packed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from numpy.typing import NDArray

from .. import __version__
from ..border import check, list_of, one_of, record, text, whole
from ..config import ModelConfig
from ..container import (
    REMEDY,
    bits_for,
    damaged,
    pack_bits,
    read_about,
    read_parts,
    unpack_bits,
    write_parts,
)
from ..errors import LightRNNError
from ..models.folder import DIMENSIONS, load_weights, read_config
from ..models.kind import kind_of
from ..models.sizes import head_of, weight_shapes
from ..models.tensors import check_finite
from ..registry import KINDS
from ..table.word_table import WordTable
from ..text.rules import TextRules
from ..text.vocabulary import Vocabulary
from ..text.word_list import pack_vocabulary, packed_order, unpack_vocabulary
from .weights import Layout, Precision, Weights, pack_weights, unpack_weights

PARTS = ("about", "words", "counts", "places", "weights")
ARRAY = record(
    {"name": text(), "shape": list_of(whole(0, 2**40), least=1, most=8), "type": one_of(get_args(Precision))},
    {"group": whole(1, 2**40)},
)
NETWORK = record(
    {
        "model": record({}),
        "table_shape": DIMENSIONS,
        "alone": whole(0, 2**31),
        "training": record({}),
        "arrays": list_of(ARRAY, most=1000),
    }
)


@dataclass(frozen=True)
class Network:
    """A trained network with a word table, without the network: its settings, words, weights and table.

    weights: as its state_dict names them, without the codes, which are the table's. training: what is known of how it
    was made.
    """

    config: ModelConfig
    vocabulary: Vocabulary
    weights: Mapping[str, NDArray[Any]]
    table: WordTable
    training: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> "Network":
        """The model of a folder, or of a file that was packed already."""
        return read(Path(path).read_bytes(), str(path)) if Path(path).is_file() else cls.of_folder(path)

    @classmethod
    def of_folder(cls, folder: str | Path) -> "Network":
        config, vocabulary, weights, table = load_weights(folder)
        shapes = weight_shapes(config, table.shape, table.alone, len(table)) if table else {}
        if table is None or kind_of(config).predictor is None or shapes.keys() | {"codes"} != weights.keys():
            raise LightRNNError(f"{folder} is a model of kind {config.model}, which cannot be packed; give a LightRNN")
        return cls(config, vocabulary, {name: weights[name] for name in shapes}, table, read_config(folder)["training"])


def describe(network: Network, precision: Precision) -> dict[str, Any]:
    """What a file made of it says of itself, whatever its format."""
    config, table = network.config, network.table
    return {
        "kind": config.model,
        "vocabulary_size": len(network.vocabulary),
        "rules": network.vocabulary.rules.to_dict(),
        "model": config.to_dict(),
        "input_size": config.input_size,
        "table_shape": list(table.shape),
        "alone": table.alone,
        "head": head_of(config, table.shape[0], table.alone),
        "precision": precision,
        "training": network.training,
        "made_by": f"lightrnn {__version__}",
    }


def pack(network: Network, precision: Precision = "int8", group: int = 0) -> dict[str, bytes]:
    """The parts of its file; group: numbers that share a scale, 0: those of a vector."""
    vocabulary, table = network.vocabulary, network.table
    layouts, weights = pack_weights(network.weights, precision, group)
    about = describe(network, precision) | {"arrays": [layout.to_dict() for layout in layouts]}
    places = table.places[packed_order(vocabulary)]
    return {
        "about": json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode(),
        **pack_vocabulary(vocabulary),
        "places": pack_bits(places, bits_for(len(vocabulary))),
        "weights": weights,
    }


def write(network: Network, precision: Precision = "int8", group: int = 0) -> bytes:
    """The whole file."""
    return write_parts(pack(network, precision, group))


def read(data: bytes, origin: str) -> Network:
    """A packed network from its file."""
    parts = read_parts(data, origin)
    return unpack(parts, read_about(parts, origin), origin)


def unpack(parts: Mapping[str, bytes], about: dict[str, Any], origin: str) -> Network:
    """A packed network from its parts, checked: what `pack` made."""
    if about["kind"] == "ngram":
        raise LightRNNError(f"{origin} is an n-gram model, where a LightRNN is needed; give one")
    if about["kind"] not in KINDS:
        raise LightRNNError(f"{origin} is of a kind that this lightrnn does not know; upgrade lightrnn")
    if set(parts) != set(PARTS):
        raise damaged(origin, f"its parts are not {', '.join(PARTS)}")
    check(about, NETWORK, origin, REMEDY)
    config = ModelConfig.from_dict(about["model"], origin)
    rules = TextRules.from_dict(about["rules"], origin)
    shape, alone, size = tuple(about["table_shape"]), about["alone"], about["vocabulary_size"]
    if (config.model, config.components, config.alone) != (about["kind"], len(shape), alone):
        raise damaged(origin, "its settings are not those of its table")
    if kind_of(config).predictor is None:
        raise damaged(origin, f"models of kind {config.model} are not packed")
    weights = _weights(about["arrays"], weight_shapes(config, shape, alone, size), parts["weights"], origin)
    vocabulary, order = unpack_vocabulary(parts, size, rules, origin)
    if len(parts["places"]) != -(-size * bits_for(size) // 8):
        raise damaged(origin, "its places have not the length that they should have")
    places = unpack_bits(parts["places"], size, bits_for(size))
    try:
        table = WordTable.from_places(places[order], shape, alone)
        check_finite(weights)
    except LightRNNError as error:
        raise damaged(origin, str(error)) from None
    return Network(config, vocabulary, weights, table, about["training"])


def _weights(told: list[dict[str, Any]], expected: Mapping[str, tuple[int, ...]], data: bytes, origin: str) -> Weights:
    """What lies in the file, if that is what the settings ask for."""
    layouts = [Layout(a["name"], tuple(a["shape"]), a["type"], a.get("group", 0)) for a in told]
    if len(layouts) != len(expected) or {layout.name: layout.shape for layout in layouts} != expected:
        raise damaged(origin, "its settings do not describe its weights")
    if any((layout.type == "int8") != (layout.group > 0) for layout in layouts):
        raise damaged(origin, "its weights are not described as they should be")
    return unpack_weights(layouts, data, origin)
