"""What a teacher is worth: a LightRNN that also learns from a larger one, beside the same without.

    python benchmarks/distillation.py DATA TEACHER --recipe small --set alone=3000 hidden_size=148 epochs=2

Printed are validation perplexities, and seconds of one core since the run began, the teacher's reading counted.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from lightrnn import Corpus, Recipe, Teacher, train
from lightrnn.runtime import keep_memory, use_threads
from lightrnn.training.bootstrap import Event
from lightrnn.training.fitting import fitted
from lightrnn.training.run import Run
from lightrnn.training.trainer import Validated


def best_perplexity(corpus: Corpus, recipe: Recipe, teacher: Teacher | None) -> float:
    """The best validation perplexity, with a teacher or without."""
    name, begin = "with a teacher" if teacher else "without", time.process_time()

    def report(run: Run, event: Event) -> None:
        if isinstance(event, Validated):
            found = f"valid {event.validation.perplexity:7.2f}  {time.process_time() - begin:6.1f} s"
            print(f"{name:14}  epoch {run.trainer.epochs_done:4.1f}  {found}", flush=True)

    with tempfile.TemporaryDirectory() as out:
        outcome = train(corpus, recipe, Path(out) / "student", teacher=teacher, report=report)
    assert outcome.best_perplexity is not None
    return outcome.best_perplexity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder of lightrnn prepare")
    parser.add_argument("teacher", type=Path, help="a LightRNN, or a mix of some")
    parser.add_argument("--share", type=float, default=0.5, help="the teacher's part in the loss")
    parser.add_argument("--recipe", default="small")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", help="fields of the student's recipe")
    asked = parser.parse_args()
    use_threads(1)
    keep_memory()
    corpus = Corpus.load(asked.data)
    fields = {name: json.loads(value) for name, _, value in (given.partition("=") for given in asked.set)}
    fields = {"minutes": 0.0, "teacher_share": asked.share} | fields
    recipe = fitted(Recipe.load(asked.recipe).override(fields), corpus)
    alone = best_perplexity(corpus, recipe, None)
    taught = best_perplexity(corpus, recipe, Teacher.load(asked.teacher))
    print(f"{alone:.2f} without, {taught:.2f} with a teacher: {1 - taught / alone:.1%} lower")


if __name__ == "__main__":
    main()
