"""How many parameters a model has, part by part, without building it.

Letters as in the paper: V vocabulary, n embedding size, m hidden size; rows and columns make about 2√V vectors.
"""

from ..config import FEATURES, FILTERS, ModelConfig
from ..table.word_table import table_shape
from .characters import CHARACTER_SIZE
from .outputs import adaptive_shape

GATES = {"lstm": 4, "gru": 3, "rnn-tanh": 1, "rnn-sigmoid": 1}
BYTES = 4  # of a float32
CHARACTERS = 100  # of an alphabet that is not known


def lightrnn_parameters(config: ModelConfig, shape: tuple[int, ...]) -> dict[str, int]:
    """Parameters by part for a table of some shape: about 2√V·n input, 2√V·m output, for an LSTM 4m(n + m) a layer."""
    return _parameters(config, sum(shape))


def opponent_parameters(config: ModelConfig, vocabulary_size: int, characters: int = CHARACTERS) -> dict[str, int]:
    """Parameters by part of the paper's opponents; `characters`: how many different ones the words are made of."""
    m, V = config.hidden_size, vocabulary_size
    parts = conventional_parameters(config, V)
    if config.model == "chsm":
        convolutions = sum(count * (width * CHARACTER_SIZE + 1) for width, count in FILTERS.items())
        highway = 2 * FEATURES * (FEATURES + 1)
        parts["input vectors"] = (characters + 2) * CHARACTER_SIZE + convolutions + highway
    if config.model == "adaptive":
        cutoffs, divisor = adaptive_shape(V, m)
        ends = [*cutoffs[1:], V]
        widths = [int(m // divisor ** (tail + 1)) for tail in range(len(cutoffs))]
        tails = [width * (m + end - begin) for width, begin, end in zip(widths, cutoffs, ends, strict=True)]
        parts["output vectors"] = (cutoffs[0] + len(cutoffs)) * (m + 1) + sum(tails)
    elif config.model in ("hsm", "chsm"):
        classes, size = table_shape(V)
        parts["output vectors"] = (classes + classes * size) * (m + 1)
    else:
        parts["output vectors"] = V * (m + 1)
    return parts


def conventional_parameters(config: ModelConfig, vocabulary_size: int) -> dict[str, int]:
    """The same network with an input and an output vector for every word: V·n + V·m."""
    return _parameters(config, vocabulary_size)


def _parameters(config: ModelConfig, vectors: int) -> dict[str, int]:
    n, m, gates = config.input_size, config.hidden_size, GATES[config.cell]
    layers = [gates * m * ((n if layer == 0 else m) + m + 2) for layer in range(config.layers)]  # W, U and two biases
    return {
        "input vectors": vectors * n,
        "output vectors": vectors * m + (vectors if config.output_bias else 0),
        "recurrence": sum(layers),
    }


def human_count(count: float) -> str:
    """1234567 → 1.2M"""
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= 0.9995 * size:
            value = count / size
            return f"{value:.0f}{unit}" if value >= 99.5 else f"{value:.3g}{unit}"
    return f"{count:.0f}"


def human_bytes(count: float) -> str:
    """Decimal units, as the paper counts: 51,822,592 → 51.8 MB"""
    return (
        human_count(count).replace("G", " G").replace("M", " M").replace("K", " k") + "B"
        if count >= 1000
        else f"{count:.0f} B"
    )
