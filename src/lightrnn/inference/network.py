"""What people ask of a trained network: see lm.LM.

Shapes: V vocabulary, N tokens of a text, K parts of a log-probability.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_several, path_of
from ..config import ModelConfig
from ..errors import LightRNNError, missing_package
from ..models.folder import load_weights, not_described, read_config
from ..models.kind import kind_of
from ..models.likeliest import Likeliest, best_of, draw_from
from ..models.predictor import Predictor
from ..models.reader import Arrays, Reader
from ..models.tensors import check_finite
from ..outputs import replace_output
from ..packed.model import Network, write
from ..packed.weights import Precision
from ..runtime import BATCH_SIZE, Progress, silent
from ..table.word_table import WordTable
from ..text.rules import Convention
from ..text.spelling import Ids
from ..text.vocabulary import Vocabulary
from .features import Reading, read_tokens, token_features
from .generate import sample
from .lm import LM
from .passes import continue_track, token_log_probs

if TYPE_CHECKING:
    from ..models.base import RecurrentModel
    from .adapting import Adapter
    from .new_words import Wanted

RATE, DECAY = 1e-3, 3e-3  # of `adapt`, for networks of up to WIDTH units
WIDTH = 256
FAMILIAR = 3000  # words that a network draws to learn how large its gradients are


@dataclass(frozen=True, eq=False)
class NetworkState:
    """What was read so far: the last word (None: nothing) and the network's state before that word's last part. It
    equals itself alone."""

    last_word: int | None
    inner: Arrays = field(repr=False)


class NetworkLM(LM):
    """A LightRNN or one of its opponents.

    Questions about single states go to a predictor, which for a LightRNN is NumPy alone; texts to a reader, which is
    the PyTorch model's for a folder and NumPy's for a packed file. Each is made when it is first needed.
    """

    def __init__(self, model: "RecurrentModel", vocabulary: Vocabulary) -> None:
        self._set_up(model.config, vocabulary, lambda: model, model.predictor)
        self.__dict__["model"] = model  # so that a deep copy has a copy of it
        self._device = next(model.parameters()).device.type

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "NetworkLM":
        """The model of a folder; without PyTorch, until a text is to be scored, where its kind can do so."""
        config, vocabulary, weights, table = load_weights(folder)
        try:
            lm = cls._of_weights(config, vocabulary, weights, table, device)
        except LightRNNError as error:
            raise not_described(folder, error) from None
        lm.training = read_config(folder)["training"]
        return lm

    @classmethod
    def of_packed(cls, network: Network, device: str = "cpu") -> "NetworkLM":
        """A model that was packed; without PyTorch, unless texts are to be scored on another device than the CPU."""
        lm = cls._of_weights(network.config, network.vocabulary, network.weights, network.table, device)
        lm._reads_by_torch, lm.training = device not in ("auto", "cpu"), network.training
        return lm

    @classmethod
    def _of_weights(
        cls,
        config: ModelConfig,
        vocabulary: Vocabulary,
        weights: Mapping[str, NDArray[Any]],
        table: WordTable | None,
        device: str,
    ) -> "NetworkLM":
        def model() -> "RecurrentModel":
            import torch

            from ..models.checkpoint import model_of
            from ..runtime import choose_device

            codes = {} if table is None else {"codes": table.codes.astype(np.int32)}
            with torch.inference_mode(False):  # it may be asked to learn later
                return model_of(config, vocabulary, {**weights, **codes}, table).to(choose_device(device)).eval()

        make = kind_of(config).predictor
        if make is None or table is None:
            return cls(model(), vocabulary)
        predictor = make(config, weights, table)
        lm = cls.__new__(cls)
        lm._set_up(config, vocabulary, model, lambda: predictor)
        lm._loaded, lm._device = (weights, table), device
        return lm

    def _set_up(
        self,
        config: ModelConfig,
        vocabulary: Vocabulary,
        make_model: Callable[[], "RecurrentModel"],
        make_predictor: Callable[[], Predictor],
    ) -> None:
        LM.__init__(self, vocabulary)
        self.config = config
        self._make_model, self._make_predictor = make_model, make_predictor
        self._reads_by_torch, self._has_learned = True, False
        self._loaded: tuple[Mapping[str, NDArray[Any]], WordTable] | None = None  # weights that are still what it has
        self.training: dict[str, Any] = {}  # what is known of how it was made

    @cached_property
    def model(self) -> "RecurrentModel":
        return self._make_model()

    @cached_property
    def _predictor(self) -> Predictor:
        return self._make_predictor()

    def make_ready(self) -> None:
        _ = self._reader

    @cached_property
    def _reader(self) -> Reader:
        if not self._reads_by_torch:
            return self._predictor.reader
        from ..models.base import TorchReader

        return TorchReader(self.model)

    @cached_property
    def _begin(self) -> NetworkState:
        return self._after(self.vocabulary.bos_id)

    def _after(self, word: int) -> NetworkState:
        """One word read, and nothing before it."""
        return NetworkState(word, self._predictor.fresh_state(word))

    def begin_state(self) -> NetworkState:
        return self._begin

    def stream_state(self) -> NetworkState:
        return NetworkState(self.vocabulary.bos_id, self._predictor.start)

    def empty_state(self) -> NetworkState:
        return NetworkState(None, self._predictor.start)

    def is_state(self, state: Any) -> bool:
        if not isinstance(state, NetworkState):
            return False
        fits = [array.shape for array in state.inner] == [array.shape for array in self._predictor.start]
        return fits and (state.last_word is None or state.last_word < len(self.vocabulary))

    def read_word(self, state: NetworkState, word: int) -> tuple[float, NetworkState]:
        if state.last_word is None:
            return float(self.unigram[word]), self._after(word)
        log_prob, inner = self._predictor.word(state.last_word, state.inner, word)
        return log_prob, NetworkState(word, inner)

    def read_words(self, state: NetworkState, ids: Ids) -> tuple[NDArray[np.float64], NetworkState]:
        scored = []
        if state.last_word is None and len(ids):
            log_prob, state = self.read_word(state, int(ids[0]))
            scored.append(np.array([log_prob]))
            ids = ids[1:]
        if len(ids) == 0:
            return np.concatenate([np.zeros(0), *scored]), state
        assert state.last_word is not None
        log_probs, inner = continue_track(self._reader, state.last_word, state.inner, ids)
        return np.concatenate([*scored, log_probs]), NetworkState(int(ids[-1]), inner)

    def read_each(self, states: Sequence[NetworkState], ids: Ids) -> tuple[NDArray[np.float64], list[NetworkState]]:
        last_words = [state.last_word for state in states]
        if not states or None in last_words:
            return super().read_each(states, ids)
        inner = tuple(np.concatenate(arrays, axis=1) for arrays in zip(*(state.inner for state in states), strict=True))
        log_probs, inner = self._predictor.words(np.array(last_words, np.int32), inner, ids)
        return log_probs, [
            NetworkState(word, tuple(array[:, track : track + 1].copy() for array in inner))
            for track, word in enumerate(ids.tolist())
        ]

    def continuations(self, state: NetworkState) -> Callable[[int], tuple[float, NetworkState]]:
        if state.last_word is None:
            return super().continuations(state)
        inner_of = self._predictor.continuations(state.last_word, state.inner)

        def of(word: int) -> tuple[float, NetworkState]:
            log_prob, inner = inner_of(word)
            return log_prob, NetworkState(word, inner)

        return of

    def next_log_probs(self, state: NetworkState) -> NDArray[np.float64]:
        if state.last_word is None:
            return self.unigram
        return self._predictor.all_words(state.last_word, state.inner)

    def likeliest(self, state: NetworkState, count: int, allowed: NDArray[np.bool_] | None = None) -> Likeliest:
        if state.last_word is None:
            return best_of(self.unigram, count, allowed)
        return self._predictor.likeliest(state.last_word, state.inner, count, allowed)

    def draw(self, state: NetworkState, temperature: float, random: np.random.Generator) -> int:
        if state.last_word is None:
            return draw_from(self.unigram, temperature, random)
        return self._predictor.draw(state.last_word, state.inner, temperature, random)

    def token_log_probs(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[Any]:
        name = self.vocabulary.rules.read_as(convention)
        return token_log_probs(self._reader, ids, self.vocabulary, name, batch_size, progress=progress)

    def token_features(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> NDArray[np.float32]:
        """(N, F): what the network scores each token of a text by; see `features.py`."""
        name = self.vocabulary.rules.read_as(convention)
        return token_features(self._reader, ids, self.vocabulary, name, batch_size, progress)

    def read(
        self,
        ids: Ids,
        convention: Convention | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress = silent,
    ) -> Reading:
        name = self.vocabulary.rules.read_as(convention)
        return read_tokens(self._reader, ids, self.vocabulary, name, batch_size, progress)

    def state_features(self, state: NetworkState) -> NDArray[np.float32] | None:
        """(F,): what the next word is scored by; None where nothing was read, and it has its `unigram` probability."""
        return None if state.last_word is None else self._predictor.features(state.last_word, state.inner)

    @property
    def networks(self) -> "list[NetworkLM]":
        return [self]

    def reset(self) -> None:
        """See LM.reset. Words that were added stay, with the weights that they were given."""
        if self._has_learned:
            self._adapter.reset()
            self._weights_changed()
            self._make_predictor, self._reads_by_torch, self._loaded = self._before_learning
            self._has_learned = False

    def checkpoint(self) -> Callable[[], None]:
        """What puts back, when it is called, all that it has learned by now, and nothing that it learns from now on."""
        if not self._has_learned:
            return self.reset
        weights = self._adapter.weights()

        def put_back() -> None:
            self._adapter.put_back(weights)
            self._weights_changed()

        return put_back

    def read_adapting(
        self,
        ids: Ids,
        rate: float | None = None,
        decay: float | None = None,
        progress: Progress = silent,
        *,
        features: bool = True,
    ) -> Reading:
        """Steps are per weight, and in a wide network more of them come together, so that it takes smaller ones."""
        rate = RATE * min(1.0, WIDTH / self.config.hidden_size) if rate is None else rate
        adapter, put_back = self._adapter, self.checkpoint()
        self._has_learned = True
        try:
            reading = adapter.read(ids, rate, DECAY if decay is None else decay, progress, features=features)
        except BaseException:
            put_back()
            raise
        self._weights_changed()
        return reading

    @cached_property
    def _adapter(self) -> "Adapter":
        try:
            from .adapting import Adapter
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        self._before_learning = self._make_predictor, self._reads_by_torch, self._loaded
        return Adapter(self.model, self.vocabulary.bos_id, self.familiar_text())

    def familiar_text(self) -> Ids:
        """A text that holds no news: the network draws it itself."""
        is_stream = self.vocabulary.rules.convention == "stream"
        drawn = sample(self, self.stream_state() if is_stream else self.begin_state(), random=np.random.default_rng(0))
        return np.fromiter(islice(drawn, FAMILIAR), np.int32, FAMILIAR)

    def add_words(
        self,
        words: Iterable[str] = (),
        *,
        text: str = "",
        counts: Sequence[int] | None = None,
        min_count: int = 1,
        progress: Progress = silent,
    ) -> list[str]:
        """Words that the model never saw become words of its vocabulary: see new_words.py. Needs SciPy.

        Returns those that were added; words that it knows are left as they are. Without `words` it is all that the text
        holds and the model lacks, if they come `min_count` times. How often and where they come is learned from the
        text. Without one, `counts` are their occurrences in as many words as the model was trained on; without these
        too, they are as frequent as the median word of the vocabulary. States from before go on to be of use; a mix or
        a cache with the model is to be made anew.
        """
        check_several("words", words)
        try:
            from .new_words import wanted
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        return self.take_in(wanted(self.vocabulary, list(words), text, counts, min_count), progress)

    def take_in(self, words: "Wanted", progress: Progress = silent) -> list[str]:
        """The same of words and a text that were counted already."""
        from .new_words import grow, place

        known = len(self.vocabulary)
        if len(words.vocabulary) == known:
            return []
        now = self.network()
        placing = place(self, words, progress)
        learned = self._has_learned
        self.reset()
        self._become(grow(self.network(), words.vocabulary, placing))
        if learned:
            _ = self._adapter  # keeps the weights as they are without what was learned
            self._has_learned = True
            self._use_weights(grow(now, words.vocabulary, placing))
        return list(words.vocabulary.words[known:])

    def network(self) -> Network:
        """A LightRNN as it is now, without PyTorch: what `lightrnn pack` packs."""
        if self._loaded is None:
            state, table = self.model.state_dict(), self.model.table
            arrays = {name: tensor.numpy(force=True).copy() for name, tensor in state.items()}
        else:
            arrays, table = dict(self._loaded[0]), self._loaded[1]
        if table is None or kind_of(self.config).predictor is None:
            raise LightRNNError(
                f"a model of kind {self.config.model} has no word table, which this needs; use a LightRNN"
            )
        arrays.pop("codes", None)
        return Network(self.config, self.vocabulary, arrays, table, self.training)

    def save(self, path: str | Path, *, precision: Precision | None = None, force: bool = False) -> None:
        """Write the model as it is now, added words and adaptation included: a model folder, or where the name
        ends in .lightrnn a packed file. If there is a model already, `force` replaces it.

        precision: of a packed file's weights; int8 unless given, and float16 once the model has learned: the steps of
        `adapt` are mostly smaller than those of int8, and a model that was in int8 would be rounded back.
        """
        if precision is not None and precision not in get_args(Precision):
            raise LightRNNError(f"precision must be {' or '.join(get_args(Precision))}, got {precision!r}")
        path = path_of("path", path)
        is_packed = path.suffix == ".lightrnn"
        if not is_packed and (path.suffix in (".html", ".onnx") or path.suffix.lower() == ".lightrnn"):
            raise LightRNNError(f"{path} would be a folder; end its name in .lightrnn, or use lightrnn pack")
        if precision is not None and not is_packed:
            raise LightRNNError(f"precision is for a packed file, got {precision} for the folder {path}; leave it out")
        if self._has_learned:
            check_finite({name: tensor.numpy(force=True) for name, tensor in self.model.state_dict().items()})
        if is_packed:
            with replace_output(path, "file", force=force, option="path") as stage:
                stage.write_bytes(write(self.network(), precision or ("float16" if self._has_learned else "int8")))
            return
        try:
            from ..models.checkpoint import save_model
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        with replace_output(path, "model", force=force, option="path") as stage:
            save_model(stage, self.model, self.vocabulary, self.training)

    def _become(self, network: Network) -> None:
        """Another network, on the same device."""
        lm = self._of_weights(network.config, network.vocabulary, network.weights, network.table, self._device)
        lm._reads_by_torch, lm.training = self._reads_by_torch, self.training
        self.__dict__ = lm.__dict__

    def _use_weights(self, network: Network) -> None:
        """Other weights of the same shapes, for the PyTorch model."""
        import torch

        weights = {name: torch.from_numpy(array) for name, array in network.weights.items()}
        self.model.load_state_dict(weights | {"codes": self.model.state_dict()["codes"]})
        self._weights_changed()

    def _weights_changed(self) -> None:
        """What was made of the PyTorch model's weights is made again when it is needed."""
        self._make_predictor, self._reads_by_torch, self._loaded = self.model.predictor, True, None
        for made in ("_predictor", "_reader", "_begin", "vectors", "_directions"):
            self.__dict__.pop(made, None)

    @property
    def part_names(self) -> tuple[str, ...]:
        return kind_of(self.config).parts(self.config)

    @cached_property
    def unigram(self) -> NDArray[np.float64]:
        """The shares of the training text, each word counted once more."""
        counts = self.vocabulary.counts + 1.0
        return np.asarray(np.log(counts / counts.sum()), np.float64)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        return self._reader.word_vectors()
