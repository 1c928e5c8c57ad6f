"""lightrnn score"""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from ..errors import LightRNNError
from ..runtime import BATCH_SIZE, use_threads
from ..text.rules import Convention
from . import screen
from .options import DeviceOption, ErrorsOption, ModelArgument, ThreadsOption, choice
from .texts import given_lines, tell_unknown


def score(
    model: ModelArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Text, one sentence a line; .gz, .xz, .zst or a pipe too.")
    ] = "-",
    format_name: Annotated[
        str, typer.Option("--format", metavar="kenlm|srilm|tsv|jsonl", help="How the scores are written.")
    ] = "tsv",
    log_base: Annotated[
        str, typer.Option("--log-base", metavar="10|e|2", help="Base of the logarithms; kenlm and srilm: always 10.")
    ] = "10",
    convention: Annotated[
        str,
        typer.Option(
            "--convention", metavar="stream|sentence", help="Carry the state across lines, or score each by itself."
        ),
    ] = "sentence",
    unk: Annotated[
        str | None,
        typer.Option(
            "--unk",
            metavar="score|skip|penalty=X",
            help="Unknown words: score as the unknown word, leave out of the sums, or score and add X, a logarithm "
            "in the chosen base, for each. score unless given; srilm: always skip.",
        ),
    ] = None,
    errors: ErrorsOption = "strict",
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=65536, help="Lines side by side; no figure changes.")
    ] = BATCH_SIZE,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
) -> None:
    """Log-probabilities of text, line by line, as the lines come: sentences, and their words.

    tsv: for each line of input one line, four columns without a header: log-probability of the line with its end,
    tokens (words and the end), unknown words among them, perplexity. An empty line is scored too: its end.

    jsonl: one object a line: log_prob, tokens, unknown, perplexity, and the lists words, log_probs, is_unknown (null
    for the log-probability of a word that --unk skip leaves out).

    kenlm: what KenLM's query prints, for an ARPA file to the last digit. word=id order log10 for each word, the total,
    and a summary at the end. id is 0 for unknown words, else the word's place in the model's vocabulary without the
    unknown word, from 1 on; order is 1 for models that are not n-gram models.

    srilm: what SRILM's ngram -ppl FILE -debug 2 prints. Unknown words and empty lines are left out, as there.

    Words are separated by ASCII white space and shown as the model's text rules leave them. A literal </s> in
    a line ends a sentence there; a literal <unk> counts as an unknown word. A line may have 16 MiB (2^24 bytes) at
    most.

      lightrnn score model test.txt > scores.tsv
      lightrnn score model test.txt --format kenlm | tail -4
      xzcat text.xz | lightrnn score model --format jsonl --log-base e
      lightrnn score model test.txt --unk penalty=-5
    """
    from ..inference.loading import load
    from ..inference.scoring import LOG_BASES, FormatName, UnknownWords, make_format, score_lines
    from ..text.reading import Errors
    from ..text.vocabulary import Unknown

    choice("--format", format_name, FormatName)
    choice("--log-base", log_base, Literal["10", "e", "2"])
    choice("--convention", convention, Convention)
    choice("--errors", errors, Errors)
    rule = UnknownWords.parse(unk or ("skip" if format_name == "srilm" else "score"), LOG_BASES[log_base])
    if format_name == "srilm" and not rule.skip:
        raise LightRNNError(
            f"--format srilm leaves unknown words out, got --unk {unk}; use another format or --unk skip"
        )
    if format_name == "kenlm" and rule.skip:
        raise LightRNNError(
            "--format kenlm gives the perplexity with and without unknown words, got --unk skip; "
            "use another format or leave --unk out"
        )
    use_threads(threads)
    lm = load(model, device=device)
    written = make_format(cast(FormatName, format_name), lm, log_base)
    blocks, unknown = given_lines(file, errors), Unknown(lm.vocabulary)
    scored = score_lines(lm, blocks, cast(Convention, convention), unknown_words=rule, batch_size=batch_size)
    for lines in scored:
        screen.write("".join(map(written.line, lines)))
        for line in lines:
            unknown.add(line.words, line.ids)
    screen.write(written.summary(file))
    tell_unknown(unknown)
