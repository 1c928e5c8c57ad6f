"""lightrnn score"""

from __future__ import annotations

import sys
from typing import Annotated, Literal, cast

import typer

from ..errors import LightRNNError
from ..runtime import BATCH_SIZE, MOST_TRACKS, use_threads
from ..text.rules import Convention
from . import screen
from .options import ConventionOption, DeviceOption, ErrorsOption, ModelArgument, ThreadsOption, UnkOption, choice
from .texts import given_lines, tell_unknown


def score(
    model: ModelArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Text, one sentence a line; .gz, .xz, .zst or a pipe too.")
    ] = "-",
    format_name: Annotated[
        str, typer.Option("--format", metavar="kenlm|srilm|kaldi|tsv|jsonl", help="How the scores are written.")
    ] = "tsv",
    log_base: Annotated[
        str | None,
        typer.Option(
            "--log-base",
            metavar="10|e|2",
            help="Base of the logarithms, 10 unless given; kenlm and srilm: always 10, kaldi: always e.",
        ),
    ] = None,
    convention: ConventionOption = "sentence",
    unk: UnkOption = None,
    errors: ErrorsOption = "strict",
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=MOST_TRACKS, help="Lines side by side; no figure changes.")
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

    kaldi: what Kaldi's steps/pytorchnn/compute_sentence_scores.py writes, in place of which it goes into
    lmrescore_nbest_pytorchnn.sh and lmrescore_lattice_pytorchnn.sh. Each line of input is utt-n, the n-th hypothesis of
    an utterance, and its words, the best hypothesis first; each line of output is utt-n and the nats (-ln P) of every
    word and of the end, with four decimals; 0 for unknown words with --unk skip. With --convention stream the first
    hypothesis of an utterance is the context of the next utterance, as it is there for recurrent models.

    Words are separated by ASCII white space and shown as the model's text rules leave them. A literal </s> in
    a line ends a sentence there; a literal <unk> counts as an unknown word. A line may have 16 MiB (2^24 bytes) at
    most.

      lightrnn score model test.txt > scores.tsv
      lightrnn score model test.txt --format kenlm | tail -4
      xzcat text.xz | lightrnn score model --format jsonl --log-base e
      lightrnn score model test.txt --unk penalty=-5
      lightrnn score model words_text --format kaldi --convention stream > lmwt.nn
    """
    from ..inference.kaldi import score_hypotheses
    from ..inference.loading import load
    from ..inference.scoring import LOG_BASES, FormatName, UnknownWords, make_format, score_lines
    from ..text.reading import Errors
    from ..text.vocabulary import Unknown

    choice("--format", format_name, FormatName)
    if log_base is not None:
        choice("--log-base", log_base, Literal["10", "e", "2"])
    choice("--convention", convention, Convention)
    choice("--errors", errors, Errors)
    base = log_base or ("e" if format_name == "kaldi" else "10")
    rule = UnknownWords.parse(unk or ("skip" if format_name == "srilm" else "score"), LOG_BASES[base])
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
    if file == "-" and sys.stdin.isatty():
        screen.note("reading lines as they are typed; Ctrl-D ends")
    blocks, unknown = given_lines(file, errors), Unknown(lm.vocabulary)
    score_blocks = score_hypotheses if format_name == "kaldi" else score_lines
    chosen = cast(Convention, convention)
    for lines in score_blocks(lm, blocks, chosen, unknown_words=rule, batch_size=batch_size):
        screen.write("".join(map(written.line, lines)))
        for line in lines:
            unknown.add(line.words, line.ids)
    screen.write(written.summary(file))
    tell_unknown(unknown)
