"""The layers against NumPy written out one word at a time, and what any distribution over a table must be."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from helpers import FLOAT32
from lightrnn.nn import LightEmbedding, LightSoftmax, WordTable

TABLES = {  # V, words alone, rows
    "square": (25, 0, 0),
    "ragged": (23, 0, 0),
    "wide": (23, 0, 3),
    "some alone": (40, 12, 0),
    "ragged, some alone": (33, 9, 0),
    "all alone": (11, 11, 0),
    "one row": (7, 3, 1),
}


def table_of(name: str, seed: int = 0) -> WordTable:
    V, alone, rows = TABLES[name]
    counts = np.random.default_rng(seed).zipf(1.5, V).clip(max=1000)
    return WordTable.random(V, rows=rows, seed=seed, alone=alone, counts=counts)


def softmax_of(table: WordTable, in_features: int = 6, **options: Any) -> LightSoftmax:
    """In double precision, all weights at random and large."""
    torch.manual_seed(1)
    layer = LightSoftmax(table, in_features, **options).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.7)
    return layer


OPTIONS = [{}, {"dim": 4}, {"word_bias": False}, {"head": 3}, {"head": 5, "word_bias": False, "dim": 3}]


def oracle(layer: LightSoftmax, table: WordTable, h: np.ndarray) -> np.ndarray:
    """log P of every word after one state, each written out from the weights."""
    w = {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}
    R = table.shape[0]
    f = w["projection.weight"] @ h if "projection.weight" in w else h

    def share(scores: list[float], which: int) -> float:
        exponentials = [np.exp(score) for score in scores]
        return np.log(exponentials[which] / sum(exponentials))

    row_scores = [w["weight"][i] @ f + w["row_bias"][i] for i in range(R)]

    def of_row(i: int) -> float:
        if "rest_vector" not in w:
            return share(row_scores, i)
        head = layer.head
        first = [*row_scores[:head], w["rest_vector"][0] @ f + w["rest_bias"][0]]
        return share(first, i) if i < head else share(first, head) + share(row_scores[head:], i - head)

    found = []
    for word in range(len(table)):
        i, j = table.codes[word]
        total = of_row(i)
        if j >= 0:
            row = w["weight"][i] / np.sqrt((w["weight"][i] ** 2).mean())
            both = w["gate.of_state.weight"] @ f + w["gate.of_state.bias"] + w["gate.of_row.weight"] @ row
            a, z = both[: len(f)], both[len(f) :]
            g = f + np.tanh(a) / (1 + np.exp(-z))
            existing = sorted(table.codes[table.codes[:, 0] == i, 1])
            bias = w["column_bias"] if w["column_bias"].ndim == 1 else w["column_bias"][i - table.alone]
            total += share([w["weight"][R + column] @ g + bias[column] for column in existing], existing.index(j))
        found.append(total)
    return np.array(found)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_distributions_are_the_oracles_and_sum_to_one(name: str, options: dict[str, Any]) -> None:
    table = table_of(name)
    layer = softmax_of(table, **options)
    hidden = torch.randn(2, 3, 6, dtype=torch.float64)
    found = layer.log_prob(hidden)
    assert found.shape == (2, 3, len(table))
    torch.testing.assert_close(found.exp().sum(dim=-1), torch.ones(2, 3, dtype=torch.float64))
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(found[place].detach(), oracle(layer, table, hidden[place].numpy()), atol=1e-12)
    words = torch.arange(len(table)).expand(2, 3, -1)
    each = layer.log_prob_of(hidden.unsqueeze(2).expand(-1, -1, len(table), -1), words)
    torch.testing.assert_close(each, found)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("options", OPTIONS[2:4], ids=str)
def test_losses(name: str, options: dict[str, Any]) -> None:
    layer = softmax_of(table_of(name), **options)
    hidden, target = torch.randn(4, 5, 6, dtype=torch.float64), torch.randint(layer.size, (4, 5))
    losses = -layer.log_prob_of(hidden, target)
    torch.testing.assert_close(layer(hidden, target, reduction="none"), losses)
    torch.testing.assert_close(layer(hidden, target, reduction="sum"), losses.sum())
    torch.testing.assert_close(layer(hidden, target), losses.mean())
    target[1:3] = -100
    torch.testing.assert_close(layer(hidden, target), losses[[0, 3]].mean())
    torch.testing.assert_close(layer(hidden, target, reduction="none")[1:3], torch.zeros(2, 5, dtype=torch.float64))
    torch.testing.assert_close(layer(hidden, target.where(target >= 0, 2), ignore_index=2), layer(
        hidden[target != 2], target[target != 2].where(target[target != 2] >= 0, -100)
    ))  # fmt: skip
    assert layer(hidden, torch.full_like(target, -100)) == 0  # the mean of nothing


@pytest.mark.parametrize("name", ["ragged", "ragged, some alone", "all alone"])
@pytest.mark.parametrize("options", [{}, {"head": 3, "word_bias": False, "dim": 2}], ids=str)
def test_gradients(name: str, options: dict[str, Any]) -> None:
    layer = softmax_of(table_of(name), 3, **options)
    hidden, target = torch.randn(6, 3, dtype=torch.float64, requires_grad=True), torch.randint(layer.size, (6,))
    target[2] = -100
    names, weights = zip(*layer.named_parameters(), strict=True)

    def loss(hidden: Tensor, *values: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (hidden, target))
        return found

    assert torch.autograd.gradcheck(loss, (hidden, *weights))


def test_gradients_of_vectors() -> None:
    table = table_of("ragged, some alone")
    layer = LightEmbedding(table, 3).double()
    ids = torch.randint(len(table), (2, 4))
    assert torch.autograd.gradcheck(
        lambda weight: torch.func.functional_call(layer, {"weight": weight}, (ids,)), (layer.weight,)
    )


@pytest.mark.parametrize("components", [2, 3])
def test_vectors_are_sums(components: int) -> None:
    table = WordTable.random(30, components, seed=3, alone=np.array([4, 17]))
    layer = LightEmbedding(table, 5)
    found = layer(torch.arange(30).view(5, 6)).view(30, 5)
    for word in range(30):
        stacked = np.split(layer.weight.detach().numpy(), np.cumsum(table.shape)[:-1])
        parts = [vectors[code] for vectors, code in zip(stacked, table.codes[word], strict=True) if code >= 0]
        np.testing.assert_allclose(found[word].detach(), np.sum(parts, axis=0), atol=FLOAT32)


def test_sparse_gradients_are_the_dense_ones() -> None:
    table = table_of("ragged, some alone")
    dense = LightEmbedding(table, 4)
    sparse = LightEmbedding(table, 4, sparse=True)
    sparse.load_state_dict(dense.state_dict())
    ids = torch.randint(len(table), (3, 7))
    for layer in (dense, sparse):
        layer(ids).square().sum().backward()
    assert sparse.weight.grad.is_sparse
    torch.testing.assert_close(sparse.weight.grad.to_dense(), dense.weight.grad)
    before = sparse.weight.detach().clone()
    torch.optim.SparseAdam(sparse.parameters()).step()
    untouched = dense.weight.grad.abs().sum(dim=1) == 0
    assert torch.equal(sparse.weight.detach()[untouched], before[untouched])


def test_with_all_words_alone_they_are_the_usual_layers() -> None:
    """Bit for bit the vectors, and the softmax's log-probabilities, whatever the order of the ids."""
    table = table_of("all alone")
    order = torch.from_numpy(table.codes[:, 0])
    usual, linear = nn.Embedding(11, 6), nn.Linear(6, 11)
    embedding, softmax = LightEmbedding(table, 6), LightSoftmax(table, 6)
    with torch.no_grad():
        embedding.weight[order] = usual.weight
        softmax.weight[order] = linear.weight
        softmax.row_bias[order] = linear.bias
    ids = torch.randint(11, (3, 4))
    assert torch.equal(embedding(ids), usual(ids))
    hidden = torch.randn(3, 4, 6)
    torch.testing.assert_close(softmax.log_prob(hidden), linear(hidden).log_softmax(dim=-1))
    torch.testing.assert_close(softmax(hidden, ids), F.cross_entropy(linear(hidden).flatten(0, 1), ids.flatten()))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("k", [1, 5, 0])
def test_the_likeliest_words_are_exact(name: str, k: int) -> None:
    layer = softmax_of(table_of(name), head=4)
    hidden = torch.randn(3, 50, 6, dtype=torch.float64)
    k = k or layer.size
    values, indices = layer.topk(hidden, k)
    expected = layer.log_prob(hidden).topk(k)
    torch.testing.assert_close(values, expected.values)
    assert torch.equal(indices, expected.indices)


def test_the_likeliest_words_need_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = LightSoftmax(WordTable.random(10_000), 8, scale=1.0)
    opened = []
    scored = LightSoftmax._column_scores
    monkeypatch.setattr(LightSoftmax, "_column_scores", lambda *given: opened.append(given[2].shape) or scored(*given))
    hidden = 2 * torch.randn(20, 8)
    best = layer.topk(hidden, 10)
    rows = sum(positions * m for positions, m in opened)
    assert rows < 20 * 50  # of 100 rows at each of 20 positions
    assert torch.equal(best.indices, layer.log_prob(hidden).topk(10).indices)


@pytest.mark.parametrize("name", ["ragged", "ragged, some alone", "all alone"])
@pytest.mark.parametrize("top_k", [None, 5])
def test_samples_have_the_frequencies_of_the_distribution(name: str, top_k: int | None) -> None:
    layer = softmax_of(table_of(name), head=2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(0.4)  # no word too rare to be tested
    hidden = torch.randn(6, dtype=torch.float64)
    draws = 20_000
    found = layer.sample(hidden.expand(draws, 6), top_k=top_k, generator=torch.Generator().manual_seed(1))
    p = layer.log_prob(hidden).exp().detach()
    if top_k:
        p[p < p.topk(top_k).values[-1]] = 0
    seen = np.bincount(found.numpy(), minlength=layer.size)
    assert (seen[p == 0] == 0).all()
    expected = (draws * p / p.sum()).numpy()
    assert stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-3
    for temperature in (0, 1e-40, 5e-324):
        assert torch.equal(layer.sample(hidden, temperature), layer.topk(hidden, 1).indices[0])


def test_at_the_start_words_have_their_shares_of_the_text() -> None:
    """Exactly, whatever the head: what a softmax would say that had learned nothing else."""
    table = table_of("ragged, some alone")
    for head in (0, 4):
        layer = LightSoftmax(table, 6, head=head)
        found = layer.log_prob(torch.zeros(6)).exp()
        torch.testing.assert_close(found.detach().double(), torch.from_numpy(table.counts / table.counts.sum()))


def test_vectors_start_at_what_the_table_knows() -> None:
    vectors = np.random.default_rng(0).standard_normal((40, 7)).astype(np.float32)
    table = WordTable.from_embeddings(vectors, np.arange(40, 0, -1), alone=4)
    layer = LightEmbedding(table, 5, scale=0.3)
    rows = layer.weight.detach()[: table.shape[0]]
    assert float(rows.std(correction=0)) == pytest.approx(0.3, rel=1e-5)
    known = table.vectors[0][:, :5] - table.vectors[0][:, :5].mean(axis=0)
    np.testing.assert_allclose(rows / rows.std(correction=0), known / known.std(), atol=1e-4)  # float32, scaled twice
    tied = LightSoftmax(table, 9, tied=layer)
    assert tied.weight is layer.weight
    assert tied.projection.weight.shape == (5, 9)
    assert len({id(parameter) for parameter in nn.ModuleList([layer, tied]).parameters()}) == len(
        list(nn.ModuleList([layer, tied]).parameters())
    )


def test_a_state_dict_holds_the_table() -> None:
    one = softmax_of(WordTable.random(20, rows=4, seed=1, alone=np.arange(4)), word_bias=False)
    other = LightSoftmax(WordTable.random(20, rows=5, seed=2, alone=np.arange(3)), 6, word_bias=False).double()
    assert one.shape == other.shape  # with another number of words alone
    other.load_state_dict(one.state_dict())
    hidden = torch.randn(3, 6, dtype=torch.float64)
    assert torch.equal(other.log_prob(hidden), one.log_prob(hidden))
    assert torch.equal(other.topk(hidden, 5).indices, one.topk(hidden, 5).indices)
    assert (other.table.codes == one.table.codes).all()
    again = copy.deepcopy(one)
    assert torch.equal(again.log_prob(hidden), one.log_prob(hidden))


@pytest.mark.parametrize("head", [0, 4])
def test_empty_batches(head: int) -> None:
    table = table_of("ragged, some alone")
    embedding = LightEmbedding(table, 6)
    layer = LightSoftmax(table, 6, tied=embedding, head=head)
    ids = torch.zeros(0, 3, dtype=torch.long)
    hidden = embedding(ids)
    assert hidden.shape == (0, 3, 6)
    loss = layer(hidden, ids)
    loss.backward()
    assert loss == 0
    assert layer.log_prob(hidden).shape == (0, 3, 33)
    assert layer.topk(hidden, 2).indices.shape == (0, 3, 2)
    assert layer.sample(hidden).shape == (0, 3)


@pytest.mark.parametrize("head", [0, 4])
def test_under_autocast_losses_are_in_single_precision(head: int) -> None:
    torch.manual_seed(0)
    table = table_of("ragged, some alone")
    embedding = LightEmbedding(table, 6)
    layer = LightSoftmax(table, 8, tied=embedding, head=head)
    ids = torch.randint(33, (4, 5))
    hidden = torch.randn(4, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = layer(hidden, ids)
        whole = layer.log_prob(hidden)
    assert loss.dtype == whole.dtype == torch.float32
    loss.backward()
    torch.testing.assert_close(loss, layer(hidden, ids), atol=2e-2, rtol=0)  # bfloat16 has three digits
    torch.testing.assert_close(whole.exp().sum(dim=-1), torch.ones(4, 5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("head", [0, 4])
def test_in_other_precisions_words_have_what_the_distribution_gives_them(dtype: torch.dtype, head: int) -> None:
    table = table_of("ragged, some alone")
    layer = LightSoftmax(table, 6, tied=LightEmbedding(table, 6).to(dtype), head=head).to(dtype)
    hidden, words = torch.randn(len(table), 6).to(dtype), torch.arange(len(table))
    found = layer.log_prob_of(hidden, words)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found, layer.log_prob(hidden).gather(1, words[:, None]).squeeze(1), atol=FLOAT32, rtol=0)


def test_small_types_of_ids_hold_no_ignored_ones() -> None:
    """-100 as one of eight bits without a sign would be 156."""
    layer = LightSoftmax(WordTable.from_counts(np.arange(256, 0, -1)), 6)
    hidden, ids = torch.randn(256, 6), torch.arange(256)
    torch.testing.assert_close(layer(hidden, ids.to(torch.uint8)), layer(hidden, ids))


@pytest.mark.parametrize("options", [{}, {"head": 4, "word_bias": False}], ids=str)
def test_compiled_in_one_graph(options: dict[str, Any]) -> None:
    """No break, and the same numbers and gradients, though every position goes through both softmaxes."""
    torch.manual_seed(0)
    table = table_of("ragged, some alone")
    embedding = LightEmbedding(table, 6)
    layer = LightSoftmax(table, 6, tied=embedding, **options)
    ids, target = torch.randint(33, (2, 4, 5))
    target[0, :2] = -100

    def loss(ids: Tensor, target: Tensor) -> Tensor:
        found: Tensor = layer(embedding(ids), target)
        return found

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected, got = loss(ids, target), compiled(ids, target)
    torch.testing.assert_close(got, expected)
    parameters = list(layer.parameters())
    for one, other in zip(torch.autograd.grad(got, parameters), torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(one, other)


def test_a_state_by_itself_is_drawn_from_too() -> None:
    layer = LightSoftmax(table_of("some alone"), 6)
    for top_k in (None, 5):
        word = layer.sample(torch.randn(6), top_k=top_k)
        assert word.shape == ()
        assert 0 <= int(word) < 40
