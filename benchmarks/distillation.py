"""What a teacher is worth: a LightRNN that also learns from a larger one's distributions, beside the same without.

    python benchmarks/distillation.py DATA TEACHER --recipe small --set alone=3000 hidden_size=148 epochs=2

Student and teacher are LightRNNs with the same vocabulary and --head: at every word both score the same most frequent
words, and all others as one, which is an exact marginal of the teacher's distribution. There the student's loss is
(1 - soft) · -log P(word) + soft · the cross-entropy with the teacher's. What is among the others, and columns, it
learns from the text alone. The teacher reads the training text once; what it scores each word by is kept, a vector a
word.

Printed are validation perplexities after every epoch, and seconds of one core. Nothing of this is part of `train` yet.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from lightrnn.config import Recipe
from lightrnn.inference.features import token_features
from lightrnn.models.base import State, TorchReader
from lightrnn.models.checkpoint import load_model
from lightrnn.models.lightrnn import LightRNN
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.text.corpus import Corpus
from lightrnn.training import bootstrap
from lightrnn.training.fitting import fitted
from lightrnn.training.trainer import Trainer, Validated


class Teacher:
    """Distributions over the words of the head and all others, of every word of a text."""

    def __init__(self, folder: Path, corpus: Corpus, student: LightRNN) -> None:
        model, vocabulary = load_model(folder)
        assert isinstance(model, LightRNN)
        assert vocabulary.digest == corpus.vocabulary.digest, "another vocabulary"
        assert model.head == student.head > 0, "another --head, or none"
        self.model = model.eval().requires_grad_(requires_grad=False)
        convention = vocabulary.rules.convention
        features = token_features(TorchReader(model), corpus.split("train"), vocabulary, convention)
        self.features = torch.from_numpy(features)

    def distributions(self, words: Tensor) -> Tensor:
        """Of words of the text, by their places in it: (P,) → (P, head + 1)."""
        return head_scores(self.model, self.features[words]).softmax(dim=-1)


def head_scores(model: LightRNN, features: Tensor) -> Tensor:
    """(P, F) → (P, head + 1): scores of the rows of the head, and of all others together."""
    assert model.config.output_bias
    assert model.rest_bias is not None
    vectors = torch.cat([model.scoring_vectors(0)[: model.head], model.rest_vector])
    return F.linear(features, vectors, torch.cat([model.output_bias[0][: model.head], model.rest_bias]))


def teach(trainer: Trainer, teacher: Teacher, soft: float) -> None:
    """Replace what the training minimises; windows are those of a stream, cut as `stream_windows` cuts it."""
    model, config = trainer.model, trainer.config
    assert isinstance(model, LightRNN)
    assert model.spelling.lengths is not None
    lengths = torch.from_numpy(model.spelling.lengths[trainer.train])
    words_of_codes = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    stream, tracks = model.spelling.stream(trainer.train), config.batch_size
    track, window = stream.share(len(lengths) // tracks), stream.share(config.window)

    def losses(codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        features, after = model.features(codes, state)
        targets = codes[:, model.components :]
        begin = trainer.position.batch * window
        places = torch.arange(tracks)[:, None] * track + begin + torch.arange(targets.shape[1])
        found = -model.scored(codes, features).flatten()
        where = (targets.flatten() < model.shape[0]).nonzero().squeeze(1)  # a word begins
        log_probs = head_scores(model, features.flatten(0, 1)[where]).log_softmax(dim=-1)
        in_head = targets.flatten()[where].clamp(max=model.head)
        cross_entropy = -(teacher.distributions(words_of_codes[places.flatten()[where]]) * log_probs).sum(dim=-1)
        known = F.nll_loss(log_probs, in_head, reduction="none")
        return found.index_add(0, where, soft * (cross_entropy - known)).view_as(targets), after

    model.losses = losses  # type: ignore[method-assign]


def train(corpus: Corpus, recipe: Recipe, folder: Path | None, soft: float) -> float:
    """The best validation perplexity, with a teacher or without."""
    name = "with a teacher" if folder else "without"
    with tempfile.TemporaryDirectory() as out:
        run = bootstrap.begin(corpus, recipe, Path(out))
    student = run.trainer.model
    assert isinstance(student, LightRNN)
    begin = time.process_time()
    if folder:
        teach(run.trainer, Teacher(folder, corpus, student), soft)
    best = float("inf")
    for event in run.trainer.run():
        if isinstance(event, Validated):
            best = min(best, event.validation.perplexity)
            seconds = time.process_time() - begin
            found = f"valid {event.validation.perplexity:7.2f}  {seconds:6.1f} s"
            print(f"{name:14}  epoch {run.trainer.epochs_done:4.1f}  {found}", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder of lightrnn prepare, in the stream convention")
    parser.add_argument("teacher", type=Path, help="a model folder")
    parser.add_argument("--soft", type=float, default=0.5, help="the share of the teacher in the loss")
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="fields of the student's recipe")
    asked = parser.parse_args()
    use_threads(1)
    keep_memory()
    corpus = Corpus.load(asked.data)
    fields = {name: json.loads(value) for name, _, value in (given.partition("=") for given in asked.set)}
    recipe = fitted(Recipe.load(asked.recipe).override({"minutes": 0.0} | fields), corpus)
    alone = train(corpus, recipe, None, asked.soft)
    taught = train(corpus, recipe, asked.teacher, asked.soft)
    print(f"{alone:.2f} without, {taught:.2f} with a teacher: {1 - taught / alone:.1%} lower")


if __name__ == "__main__":
    main()
