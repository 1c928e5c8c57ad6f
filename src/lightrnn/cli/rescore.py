"""lightrnn rescore"""

from __future__ import annotations

from itertools import chain
from math import isfinite
from typing import Annotated, cast

import typer

from ..errors import LightRNNError
from ..files import expand
from ..runtime import BATCH_SIZE, MOST_TRACKS, use_threads
from ..text.rules import Convention
from . import screen
from .options import ConventionOption, DeviceOption, ErrorsOption, ModelArgument, ThreadsOption, UnkOption, choice
from .texts import given_lines, tell_unknown


def rescore(
    model: ModelArgument,
    nbest: Annotated[
        list[str], typer.Argument(metavar="NBEST…", help="Files with n-best lists; .gz, .xz, .zst or - too.")
    ],
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout", metavar="srilm|tsv|nemo", help="Layout of the lists; by each file's first line if absent."
        ),
    ] = None,
    beams: Annotated[
        int | None, typer.Option("--beams", min=1, help="Layout nemo: lines that each utterance has, its beam_size.")
    ] = None,
    lm_weight: Annotated[float, typer.Option("--lm-weight", help="Weight of the model's log10 probability.")] = 1.0,
    score_weight: Annotated[float, typer.Option("--score-weight", help="Weight of the score in the list.")] = 1.0,
    word_penalty: Annotated[float, typer.Option("--word-penalty", help="Added for each word.")] = 0.0,
    convention: ConventionOption = "sentence",
    unk: UnkOption = None,
    best: Annotated[bool, typer.Option("--best", help="Print the best hypothesis of each list only.")] = False,
    errors: ErrorsOption = "strict",
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=MOST_TRACKS, help="Hypotheses side by side; no figure changes.")
    ] = BATCH_SIZE,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Re-rank n-best lists with a language model: best first, equals in their old order.

    total = score-weight · score + lm-weight · log10 P(words and sentence end) + word-penalty · words

    --convention sentence scores every hypothesis by itself. stream carries the context from utterance to utterance, as
    a conversation or a reading has it: the best hypothesis of each list is what the next list's are scored after.

    Layout srilm, SRILM's third: acoustic score, LM score, number of words and the words, spaces between; each file is
    one list. <s> and </s> among the words are not scored. The LM score is replaced by the model's log10; --best
    prints the words alone. The lists of several files follow each other.

    Layout tsv: id, score and text, tabs between (two tabs in a file's first line tell it); consecutive lines of one
    id are a list. The score is replaced by the total; --best prints id and text.

    Layout nemo, the beams of NVIDIA NeMo's eval_beamsearch_ngram.py: text and score, a tab between (one tab in a file's
    first line tells it); each utterance has as many lines as --beams says. The score is replaced by the total;
    --best prints the text alone. A line may have 16 MiB at most.

      lightrnn rescore model lists.tsv --lm-weight 0.8 > ranked.tsv
      lightrnn rescore model lists.tsv --best
      lightrnn rescore model talk.tsv --convention stream --unk penalty=-2
      lightrnn rescore model preds_out_width16.tsv --beams 16 --best
      lightrnn rescore model utterance1.nbest.gz --layout srilm
    """
    from ..inference.loading import load
    from ..inference.rescoring import Layout, Weights, best_line, ranked_line, read_lists
    from ..inference.rescoring import rescore as rescore_lists
    from ..inference.scoring import LOG_BASES, UnknownWords
    from ..text.reading import Errors
    from ..text.vocabulary import Unknown

    if layout is None and beams is not None:
        layout = "nemo"
    if layout is not None:
        choice("--layout", layout, Layout)
    choice("--convention", convention, Convention)
    choice("--errors", errors, Errors)
    if beams is not None and layout != "nemo":
        raise LightRNNError(f"--beams is for layout nemo, got --layout {layout}; leave one of them out")
    rule = UnknownWords.parse(unk or "score", LOG_BASES["10"])
    weights = Weights(score_weight, lm_weight, word_penalty)
    for option, value in (
        ("--score-weight", score_weight),
        ("--lm-weight", lm_weight),
        ("--word-penalty", word_penalty),
    ):
        if not isfinite(value):
            raise LightRNNError(f"{option} must be a finite number, got {value}")
    files = expand(nbest)
    use_threads(threads)
    lm = load(model, device=device)
    lists = chain.from_iterable(
        read_lists(chain.from_iterable(given_lines(file, errors)), cast(Layout | None, layout), file, beams)
        for file in files
    )
    unknown = Unknown(lm.vocabulary)
    chosen = cast(Convention, convention)
    for ranked in rescore_lists(lm, lists, weights, chosen, unknown_words=rule, batch_size=batch_size):
        screen.write(best_line(ranked) if best else "".join(map(ranked_line, ranked)))
        for entry in ranked:
            words = lm.vocabulary.rules.split(entry.hypothesis.sentence)
            unknown.add(words, lm.vocabulary.encode(words))
    tell_unknown(unknown)
