"""The kinds of models that ship with the package; PyTorch is imported when one is built."""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from ..config import ModelConfig
from ..table.shapes import component_names, table_shape
from ..table.word_table import WordTable
from ..text.vocabulary import Vocabulary
from .kind import Kind, Shape, Size
from .predictor import CodePredictor
from .sizes import CHARACTER_SIZE, FEATURES, FILTERS, adaptive_shape, bias_shapes, head_of, vectors_and_recurrence

if TYPE_CHECKING:
    from torch import nn

    from .lightrnn import LightRNN
    from .opponents import WordModel
    from .outputs import Output

MakeOutput = Callable[[ModelConfig, Vocabulary, WordTable | None, int], "Output"]
MakeTied = Callable[[ModelConfig, Vocabulary], tuple["nn.Module", "Output"]]


def _build_lightrnn(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "LightRNN":
    from .lightrnn import LightRNN

    assert table is not None
    return LightRNN(config, table)


def _lightrnn_shape(config: ModelConfig, words: int) -> Shape:
    assert isinstance(config.alone, int)
    return table_shape(words, config.components, config.rows, config.alone)


def _lightrnn_parameters(config: ModelConfig, size: Size) -> dict[str, int]:
    shape = size.shape or _lightrnn_shape(config, size.words)
    found = vectors_and_recurrence(config, sum(shape))
    assert isinstance(config.alone, int)
    if head_of(config, shape[0], config.alone):
        found["output vectors"] += (config.input_size if config.tied else config.hidden_size) + config.output_bias
    biases = sum(map(prod, bias_shapes(config, shape, config.alone, size.words)))
    found["output vectors"] += biases - (sum(shape) if config.output_bias else 0)
    return found


LIGHTRNN = Kind(
    build=_build_lightrnn,
    parts=lambda config: component_names(config.components),
    parameters=_lightrnn_parameters,
    has_table=True,
    predictor=CodePredictor,
    start_shape=_lightrnn_shape,
    settings=frozenset(
        {
            *("embedding_size", "components", "alone", "head", "rows", "tied", "output_bias", "word_bias"),
            *("start", "start_vectors", "forget_bias", "refine", "rounds", "round_share", "solver"),
            *("clustering", "sample"),
        }
    ),
)


def _opponent(
    output: MakeOutput,
    output_parameters: Callable[[ModelConfig, int], int],
    settings: tuple[str, ...] = (),
    tied: MakeTied | None = None,
    parts: tuple[str, ...] = ("word",),
    start_shape: Callable[[ModelConfig, int], Shape | None] = lambda config, words: None,
    permutations: tuple[str, ...] = (),
) -> Kind:
    """A kind with a vector a word as its input; output_parameters: for so many words; tied: input and output, where
    they can have the same vectors."""

    def build(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "WordModel":
        from torch import nn

        from .opponents import WordModel

        if config.tied and tied is not None:
            return WordModel(config, *tied(config, vocabulary))
        word_input = nn.Embedding(len(vocabulary), config.input_size, sparse=True)
        return WordModel(config, word_input, output(config, vocabulary, table, seed))

    def parameters(config: ModelConfig, size: Size) -> dict[str, int]:
        found = vectors_and_recurrence(config, size.words)
        return found | {"output vectors": output_parameters(config, size.words)}

    names = frozenset({"embedding_size", "bigram_vectors", *(("tied",) if tied is not None else ()), *settings})
    return Kind(
        build,
        lambda config: parts,
        parameters,
        start_shape=start_shape,
        settings=names,
        permutations=frozenset(permutations),
    )


def _full(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "Output":
    from .outputs import FullSoftmax

    return FullSoftmax(len(vocabulary), config.hidden_size)


def _hierarchical(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "Output":
    from .outputs import HierarchicalSoftmax, class_places

    return HierarchicalSoftmax(class_places(vocabulary.counts, config.classes, seed, table), config.hidden_size)


def _blackout(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "Output":
    from .outputs import BlackOut

    return BlackOut(vocabulary.counts, config.hidden_size, config.blackout_samples, config.blackout_alpha)


def _adaptive(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "Output":
    from .outputs import AdaptiveSoftmax

    return AdaptiveSoftmax(vocabulary.counts, config.hidden_size)


def _tied_full(config: ModelConfig, vocabulary: Vocabulary) -> tuple["nn.Module", "Output"]:
    from torch import nn

    from .outputs import TiedSoftmax

    words = nn.Embedding(len(vocabulary), config.input_size)
    return words, TiedSoftmax(words, config.hidden_size)


def _tied_adaptive(config: ModelConfig, vocabulary: Vocabulary) -> tuple["nn.Module", "Output"]:
    from .outputs import RankedEmbedding, TiedAdaptive

    words = RankedEmbedding(vocabulary.counts, config.input_size)
    return words, TiedAdaptive(words, config.hidden_size)


def _vector_and_bias(config: ModelConfig, words: int) -> int:
    return words * (config.hidden_size + 1)


def _full_parameters(config: ModelConfig, words: int) -> int:
    return words + _projection(config) if config.tied else _vector_and_bias(config, words)


def _projection(config: ModelConfig) -> int:
    """From the state to tied vectors of another size."""
    n, m = config.input_size, config.hidden_size
    return n * m if n != m else 0


def _hierarchical_parameters(config: ModelConfig, words: int) -> int:
    classes, size = table_shape(words)
    return (classes + classes * size) * (config.hidden_size + 1)


def _adaptive_parameters(config: ModelConfig, words: int) -> int:
    n, units = config.input_size, config.hidden_size
    cutoffs, divisor = adaptive_shape(words, units)
    if config.tied:
        return _projection(config) + cutoffs[0] + len(cutoffs) * (n * units + n + 1)
    widths = [int(units // divisor ** (tail + 1)) for tail in range(len(cutoffs))]
    ends = [*cutoffs[1:], words]
    tails = [width * (units + end - begin) for width, begin, end in zip(widths, cutoffs, ends, strict=True)]
    return (cutoffs[0] + len(cutoffs)) * (units + 1) + sum(tails)


def _class_shape(config: ModelConfig, words: int) -> Shape | None:
    """The rows of a square table are the classes, where they come from a bigram start."""
    return table_shape(words) if config.classes == "bigram" else None


FULL = _opponent(_full, _full_parameters, tied=_tied_full)
HSM = _opponent(
    _hierarchical,
    _hierarchical_parameters,
    settings=("classes", "clustering"),
    parts=("class", "word"),
    start_shape=_class_shape,
    permutations=("output.places",),
)
BLACKOUT = _opponent(_blackout, _vector_and_bias, settings=("blackout_samples", "blackout_alpha"))
ADAPTIVE = _opponent(_adaptive, _adaptive_parameters, tied=_tied_adaptive, permutations=("output.ranks", "input.ranks"))


def _build_chsm(config: ModelConfig, vocabulary: Vocabulary, table: WordTable | None, seed: int) -> "WordModel":
    from .characters import CharacterCNN
    from .opponents import WordModel

    return WordModel(config, CharacterCNN(vocabulary), _hierarchical(config, vocabulary, table, seed))


def _chsm_parameters(config: ModelConfig, size: Size) -> dict[str, int]:
    convolutions = sum(count * (width * CHARACTER_SIZE + 1) for width, count in FILTERS.items())
    highway = 2 * FEATURES * (FEATURES + 1)
    return vectors_and_recurrence(config, size.words) | {
        "input vectors": (size.characters + 2) * CHARACTER_SIZE + convolutions + highway,
        "output vectors": _hierarchical_parameters(config, size.words),
    }


CHSM = Kind(
    _build_chsm,
    lambda config: ("class", "word"),
    _chsm_parameters,
    start_shape=_class_shape,
    settings=frozenset({"classes", "clustering"}),
    permutations=frozenset({"output.places"}),
    input_size=FEATURES,
    input_dropout=False,  # Kim et al. have none between the highway layer and the recurrence
)
