"""What comes next: all words against the NumPy oracle, and the likeliest ones against all."""

import numpy as np
import pytest
import torch

from helpers import CELLS, FLOAT32, random_lightrnn
from lightrnn.models.base import to_arrays
from lightrnn.models.code_network import Steps
from oracle import oracle_of

SHAPES = [  # V, K, rows
    *((25, 2, 0), (26, 2, 0), (24, 2, 0), (3, 2, 0), (27, 3, 0), (28, 3, 0), (26, 3, 0), (16, 4, 0), (50, 5, 0)),
    *((26, 2, 9), (26, 2, 26), (26, 2, 1), (29, 3, 10)),
]


def after(model: torch.nn.Module, words: list[int]) -> tuple[int, tuple[np.ndarray, ...]]:
    with torch.inference_mode():
        return words[-1], to_arrays(model.log_probs(torch.tensor([words]))[1])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_steps_are_those_of_the_model(cell: str, layers: int) -> None:
    model = random_lightrnn(cell, layers=layers)
    codes = np.array([0, 3, 7, 1])
    weights = [[w.detach().numpy() for w in layer] for layer in model.recurrence.all_weights]
    steps = Steps(model.cell, weights, model.input_vectors.weight.detach().numpy())
    state = tuple(torch.randn(layers, 4, 7) for _ in model.initial_state(1))
    with torch.inference_mode():
        expected, state_expected = model.read(torch.from_numpy(codes)[:, None], state)
    got, state_got = steps(codes, to_arrays(state))
    np.testing.assert_allclose(got, expected[:, 0], atol=1e-6, rtol=FLOAT32)  # one step in float32
    for one, other in zip(state_got, state_expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=FLOAT32)  # one step in float32
    alone = tuple(tensor[:, :1].numpy() for tensor in state)  # one state for all codes
    shared, _ = steps(codes, alone)
    repeated, _ = steps(codes, tuple(np.repeat(array, 4, axis=1) for array in alone))
    np.testing.assert_allclose(shared, repeated, atol=1e-6, rtol=FLOAT32)  # one step in float32


def test_products_that_are_too_many_to_keep_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_lightrnn()
    kept = model.predictor().all_words(*after(model, [0, 1, 2]))
    monkeypatch.setattr("lightrnn.models.code_network.LARGEST_TABLE", 0)
    np.testing.assert_allclose(model.predictor().all_words(*after(model, [0, 1, 2])), kept, atol=FLOAT32)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("V", "K", "rows"), SHAPES)
def test_distribution_is_the_oracles_and_sums_to_one(cell: str, V: int, K: int, rows: int) -> None:
    model = random_lightrnn(cell, V, K, rows=rows)
    words = [1 % V, 0, 2 % V]
    log_probs = model.predictor().all_words(*after(model, words))
    assert abs(np.exp(log_probs).sum() - 1) < FLOAT32
    oracle = oracle_of(model)
    _, state = oracle.score(np.array(words))
    expected = [sum(oracle.word_log_probs(words[-1], w, state)[0]) for w in range(V)]
    np.testing.assert_allclose(log_probs, expected, atol=FLOAT32, rtol=FLOAT32)


def flat(model: torch.nn.Module) -> None:
    """Every word as likely as every other: the search must open everything."""
    for parameter in [*model.output_vectors, *model.output_bias]:
        torch.nn.init.zeros_(parameter)


def peaked(model: torch.nn.Module) -> None:
    """Nearly all probability on a few words; the rest tiny."""
    for parameter in [*model.output_vectors, *model.output_bias]:
        parameter.data.mul_(8)


@pytest.mark.parametrize("change", [None, flat, peaked])
@pytest.mark.parametrize(("V", "K", "rows"), [*SHAPES, (2000, 2, 0), (2000, 3, 0), (1990, 4, 0), (1990, 2, 300)])
def test_likeliest_words_are_the_top_of_the_distribution(V: int, K: int, rows: int, change: object) -> None:
    model = random_lightrnn(V=V, K=K, rows=rows, seed=V)
    if change is not None:
        change(model)  # type: ignore[operator]
    predictor = model.predictor()
    place = after(model, [0, 1, 2])
    log_probs = predictor.all_words(*place)
    allowed = np.random.default_rng(V).random(V) < 0.2
    allowed[1] = True
    for count in (1, 2, 7, 10, 100, 1000):
        for mask in (None, allowed):
            found = predictor.likeliest(*place, count, mask)
            values = log_probs if mask is None else np.where(mask, log_probs, -np.inf)
            expected = np.sort(values[values > -np.inf])[::-1][:count]
            np.testing.assert_allclose(found.log_probs, expected, atol=2e-5)  # float32; the two add up in another order
            # float32; the two add up in another order
            np.testing.assert_allclose(log_probs[found.words], found.log_probs, atol=2e-5)
            assert len(set(found.words.tolist())) == len(found.words)
            assert mask is None or mask[found.words].all()


def test_the_search_opens_few_rows_of_a_peaked_model() -> None:
    model = random_lightrnn(V=2000)
    peaked(model)
    assert model.predictor().likeliest(*after(model, [0, 1, 2]), 10).opened < 45 / 2  # half of the rows at most
