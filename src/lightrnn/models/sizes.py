"""How many parameters a model has, part by part, without building it.

Letters as in the paper: V vocabulary, n embedding size, m hidden size; rows and columns make about 2√V vectors.
"""

from ..config import ModelConfig
from ..registry import CELLS

BYTES = 4  # of a float32


def vectors_and_recurrence(config: ModelConfig, vectors: int) -> dict[str, int]:
    """Parameters by part of a network with so many input vectors and as many output vectors.

    Tied output vectors are the input's; what they add then is biases and a projection, if any.
    """
    n, m, gates = config.input_size, config.hidden_size, CELLS[config.cell].gates
    layers = [gates * m * ((n if layer == 0 else m) + m + 2) for layer in range(config.layers)]  # W, U and two biases
    outputs = vectors * m if not config.tied else m * n if m != n else 0
    return {
        "input vectors": vectors * n,
        "output vectors": outputs + (vectors if config.output_bias else 0),
        "recurrence": sum(layers),
    }


def head_of(config: ModelConfig, rows: int, alone: int) -> int:
    """How many rows are scored at every word, where the others are scored apart; 0: there is one softmax for all."""
    head = min(config.head, alone)
    return head if head < rows else 0


def bias_shapes(config: ModelConfig, shape: tuple[int, ...], alone: int, words: int) -> list[tuple[int, ...]]:
    """Of the biases of each component, if there are any: (n_s,).

    Where words have biases, the last component's are those of the places that words share, in lexicographic order, by
    all codes before the last and by that; some at the end may be of places that do not exist.
    """
    shapes: list[tuple[int, ...]] = [(size,) for size in shape if config.output_bias]
    if config.word_bias and shapes and words > alone:
        shapes[-1] = (-(-(words - alone) // shape[-1]), shape[-1])
    return shapes


def weight_shapes(config: ModelConfig, shape: tuple[int, ...], alone: int, words: int) -> dict[str, tuple[int, ...]]:
    """The arrays of a LightRNN by name, for a table of this shape for so many words, of which some stand alone."""
    n, m, gates = config.input_size, config.hidden_size, CELLS[config.cell].gates
    shapes: dict[str, tuple[int, ...]] = {"input_vectors.weight": (sum(shape), n)}
    for layer in range(config.layers):
        shapes[f"recurrence.weight_ih_l{layer}"] = (gates * m, m if layer else n)
        shapes[f"recurrence.weight_hh_l{layer}"] = (gates * m, m)
        shapes |= {f"recurrence.bias_{side}_l{layer}": (gates * m,) for side in ("ih", "hh")}
    shapes |= {f"output_vectors.{s}": (size, m) for s, size in enumerate(shape) if not config.tied}
    if config.tied and n != m:
        shapes["projection.weight"] = (n, m)
    shapes |= {f"output_bias.{s}": size for s, size in enumerate(bias_shapes(config, shape, alone, words))}
    if head_of(config, shape[0], alone):
        shapes |= {"rest_vector": (1, n if config.tied else m)} | ({"rest_bias": (1,)} if config.output_bias else {})
    return shapes


def conventional_parameters(config: ModelConfig, vocabulary_size: int) -> dict[str, int]:
    """The same network with an input and an output vector for every word: V·n + V·m."""
    return vectors_and_recurrence(config, vocabulary_size)


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


# Of the opponents' parts, which must be known without building them.

FILTERS = {width: 25 * width for width in range(1, 7)}  # of the character convolutions: width → filters
FEATURES = sum(FILTERS.values())  # 525
CHARACTER_SIZE = 15
HEAD = 2000  # most words in the head of the adaptive softmax


def adaptive_shape(size: int, units: int) -> tuple[list[int], float]:
    """Cutoffs and divisor: a head of a fifth of the words but at most HEAD, and two tails with the cut at √(head · V).

    Each tail's vectors have half the size of those before it (networks of fewer than 4 units: the full size).
    """
    head = min(HEAD, max(1, size // 5))
    middle = round((head * size) ** 0.5)
    return sorted({cut for cut in (head, middle) if cut < size}), 2.0 if units >= 4 else 1.0
