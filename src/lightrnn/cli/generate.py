"""lightrnn generate"""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from ..errors import LightRNNError
from ..runtime import use_threads
from . import screen
from .options import DeviceOption, ModelArgument, ShowUnkOption, ThreadsOption
from .texts import tell_unknown_of


def generate(
    model: ModelArgument,
    prompt: Annotated[str, typer.Option("--prompt", help="Words to go on from.")] = "",
    length: Annotated[int, typer.Option("-n", "--words", min=1, help="Words to write, sentence ends counted.")] = 50,
    temperature: Annotated[
        float,
        typer.Option("--temperature", min=0, max=100, help="Below 1: likelier words; 0: as --greedy; above: wilder."),
    ] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="Draw from the k likeliest words only; 0: all.")] = 0,
    top_p: Annotated[
        float, typer.Option("--top-p", min=0.001, max=1, help="Draw from the likeliest words that hold this share.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="The same seed, the same text.")] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The likeliest row, then the likeliest column: the paper's prediction.")
    ] = False,
    beam: Annotated[
        int, typer.Option("--beam", min=0, max=10_000, help="The likeliest text found with so many kept; 0: draw.")
    ] = 0,
    unk: ShowUnkOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Text from a model, word by word as it is made; a sentence's end is a new line.

    Words are drawn from the model's distribution (a row, then a column: two small draws), cut off by --top-k and
    --top-p if given; or chosen by --greedy or --beam.

      lightrnn generate model --prompt "it was a" -n 100 --temperature 0.8 --seed 1
      lightrnn generate model --prompt "it was a" --beam 8
    """
    from ..inference.generate import beam_search
    from ..inference.loading import load

    if greedy and beam:
        raise LightRNNError("--greedy and --beam cannot be used together; give one of them")
    if (greedy or beam) and (top_k or top_p < 1 or temperature != 1 or seed is not None):
        raise LightRNNError(
            f"{'--greedy' if greedy else '--beam'} draws nothing, so --temperature, --top-k, --top-p and --seed do not "
            "go with it; leave them out"
        )
    use_threads(threads)
    lm = load(model, device=device)
    words, eos = lm.vocabulary.words, lm.vocabulary.rules.eos
    tell_unknown_of(lm, prompt)
    if beam:
        best, log_prob = beam_search(lm, lm.state(prompt), beam, length, None if unk else lm.vocabulary.unk_id)[0]
        cut = ", cut off by -n" * (best[-1] != lm.vocabulary.eos_id)
        screen.note(f"natural-log probability {log_prob:.3f}, of {len(best)} words{cut}")
        drawn = iter([words[word] for word in best])
    else:
        temperature = 0.0 if greedy else temperature
        drawn = lm.generate(prompt, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, unk=unk)
    screen.write(prompt)
    at_start = not prompt
    for word in itertools.islice(drawn, length):
        screen.write("\n" if word == eos else word if at_start else f" {word}")
        at_start = word == eos
    screen.write("" if at_start else "\n")
