"""The model against the NumPy oracle, and properties that any LightRNN must have."""

import numpy as np
import pytest
import torch

from helpers import CELLS, FLOAT32, random_lightrnn
from lightrnn.models.base import to_arrays
from lightrnn.models.lightrnn import LightRNN
from lightrnn.table.shapes import table_shape
from lightrnn.table.word_table import WordTable
from oracle import oracle_of


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("V", "K", "rows"), [(25, 2, 0), (23, 2, 0), (27, 3, 0), (19, 3, 0), (2, 2, 0), (40, 4, 0), (23, 2, 9), (23, 3, 11)]
)
@pytest.mark.parametrize("layers", [1, 2])
def test_equations_with_carried_state(cell: str, V: int, K: int, rows: int, layers: int) -> None:
    model = random_lightrnn(cell, V, K, layers, bias=V % 2 == 0, rows=rows)
    oracle = oracle_of(model)
    words = np.random.default_rng(V).integers(V, size=(3, 21))
    # Three windows of 8, 5 and 7 words with the state carried, against one loop over each whole track.
    state = None
    parts = []
    for begin, end in ((0, 8), (8, 13), (13, 20)):
        piece, state = model.log_probs(torch.from_numpy(words[:, begin : end + 1]), state)
        parts.append(piece.detach().numpy())
    got = np.concatenate(parts, axis=1)
    for track in range(3):
        expected, _ = oracle.score(words[track])
        np.testing.assert_allclose(got[track], expected, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize("K", [2, 3])
def test_a_first_word_is_read_whole_and_a_carried_one_goes_on(K: int) -> None:
    """Without a state all codes of word 0 are fed, with one only the last: its others are in the state already."""
    model = random_lightrnn(V=23, K=K)
    oracle, words = oracle_of(model), [4, 9, 2]
    for state, expected in ((None, oracle.fresh(4)), (model.initial_state(1), oracle.start())):
        got, _ = model.log_probs(torch.tensor([words]), state)
        np.testing.assert_allclose(got[0].detach(), oracle.score(words, expected)[0], atol=FLOAT32, rtol=FLOAT32)
    whole, zeros = (model.log_probs(torch.tensor([words]), state)[0] for state in (None, model.initial_state(1)))
    assert not torch.allclose(whole, zeros, atol=1e-3)  # far more than float32 explains
    for tensor, other in zip(model.predictor().fresh_state(4), oracle.fresh(4)[0], strict=True):
        np.testing.assert_allclose(tensor[0, 0], other, atol=FLOAT32)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("V", "K"), [(25, 2), (26, 2), (24, 2), (3, 2), (27, 3), (28, 3), (26, 3), (16, 4), (50, 5)])
def test_probabilities_of_all_words_sum_to_one(cell: str, V: int, K: int) -> None:
    model = random_lightrnn(cell, V, K)
    last = 2 % V
    _, state = model.log_probs(torch.tensor([[1 % V, 0, last]]))
    # By scoring every word on its own, through the interface that evaluation uses …
    tracks = torch.tensor([[last, word] for word in range(V)])
    stacked = tuple(tensor.expand(-1, V, -1).contiguous() for tensor in state)
    scored = model.log_probs(tracks, stacked)[0].sum(dim=-1)[:, 0]
    assert abs(scored.exp().sum().item() - 1) < FLOAT32
    # … and by the batched distribution, which must say the same of every word.
    torch.testing.assert_close(
        torch.from_numpy(model.predictor().all_words(last, to_arrays(state))),
        scored.double(),
        atol=FLOAT32,
        rtol=FLOAT32,
    )


def test_permuting_table_and_vectors_together_changes_nothing() -> None:
    model = random_lightrnn(V=25)
    words = torch.randint(25, (2, 12))
    before, _ = model.log_probs(words)
    rows, columns = torch.randperm(5), torch.randperm(5)
    codes = np.stack([rows.numpy()[model.table.codes[:, 0]], columns.numpy()[model.table.codes[:, 1]]], axis=1)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "codes"}
    model = LightRNN(model.config, WordTable(codes, model.shape))
    model.load_state_dict(weights | {"codes": model.codes})
    model.eval()
    with torch.no_grad():
        model.input_vectors.weight[torch.cat([rows, 5 + columns])] = model.input_vectors.weight.clone()
        for s, permutation in enumerate((rows, columns)):
            model.output_vectors[s][permutation] = model.output_vectors[s].clone()
            model.output_bias[s][permutation] = model.output_bias[s].clone()
    after, _ = model.log_probs(words)
    torch.testing.assert_close(before, after, atol=1e-6, rtol=1e-6)  # the same sums in another order


@pytest.mark.parametrize("K", [2, 3])
def test_a_word_sees_nothing_after_itself(K: int) -> None:
    model = random_lightrnn(K=K)
    words = torch.randint(23, (1, 10))
    changed = words.clone()
    changed[0, 6:] = (changed[0, 6:] + 1) % 23
    one, other = model.log_probs(words)[0], model.log_probs(changed)[0]
    torch.testing.assert_close(one[:, :5], other[:, :5])
    assert not torch.allclose(one[:, 5:], other[:, 5:])


def test_dropout_acts_in_training_only() -> None:
    model = random_lightrnn()
    words = torch.randint(23, (2, 9))
    torch.testing.assert_close(model.log_probs(words)[0], model.log_probs(words)[0])
    model.train()
    assert not torch.allclose(model.log_probs(words)[0], model.log_probs(words)[0])


def test_row_and_column_steps_share_their_weights() -> None:
    """One W, U, b a layer: the parameter count has no second cell, and input and output vectors are apart."""
    model = random_lightrnn(V=25)
    count = sum(p.numel() for p in model.parameters())
    assert count == 10 * 5 + 10 * 7 + 10 + 4 * 7 * (5 + 7) + 2 * 4 * 7
    assert table_shape(25) == (5, 5)


@pytest.mark.parametrize("layers", [1, 2])
def test_what_is_remembered_fades_by_the_forget_bias(layers: int) -> None:
    model = random_lightrnn(layers=layers)
    model.reset(1e-6, forget_bias=1.0)
    h, c = torch.zeros(layers, 1, 7), torch.ones(layers, 1, 7)
    _, (_, after) = model.read(torch.tensor([[3, 7]]), (h, c))
    share = 1 / (1 + np.exp(-1.0))
    # weights of 1e-6 are not quite none
    torch.testing.assert_close(after, torch.full_like(after, share**2), atol=1e-4, rtol=1e-4)
    model.reset(1e-6)
    _, (_, after) = model.read(torch.tensor([[3, 7]]), (h, c))
    # weights of 1e-6 are not quite none
    torch.testing.assert_close(after, torch.full_like(after, 0.25), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("cell", ["gru", "rnn-tanh", "rnn-sigmoid"])
def test_other_cells_have_no_forget_gate(cell: str) -> None:
    model = random_lightrnn(cell)
    model.reset(0.1, forget_bias=1.0)
    assert all((p == 0).all() for name, p in model.named_parameters() if "bias" in name)
