"""lightrnn next"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from ..errors import LightRNNError
from ..runtime import use_threads
from . import screen
from .options import DeviceOption, JsonOption, ModelArgument, ShowUnkOption, ThreadsOption
from .texts import tell_unknown_of

if TYPE_CHECKING:
    from ..inference.lm import LM


def next_(
    model: ModelArgument,
    before: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONTEXT", help="The words before, from the sentence's start on.", show_default=False),
    ] = None,
    count: Annotated[int, typer.Option("-k", "--count", min=1, help="How many words to show.")] = 10,
    prefix: Annotated[str, typer.Option("--prefix", help="Only words that begin so: what a keyboard asks.")] = "",
    unk: ShowUnkOption = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="A prompt that completes as you type.")
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """The likeliest next words after a context, with their probabilities; exact, over the whole vocabulary.

    The unknown word is left out unless asked for by --unk; the probabilities of the others are the same either way.

    In the interactive prompt Tab takes the first suggestion, Alt and a digit any of them, Ctrl-W takes back a word,
    Ctrl-U the line, Enter ends the sentence and Ctrl-D the program. A mix with a cache (`lightrnn mix MODEL cache:500
    --tune DATA -o mixed`) learns the words that were just typed.

      lightrnn next model "it was a"
      lightrnn next model "it was a" --prefix th -k 5
      lightrnn next model --interactive
    """
    from ..inference.loading import load

    context = " ".join(before or [])
    if interactive and (prefix or as_json):
        raise LightRNNError(f"{'--prefix' if prefix else '--json'} does not go with --interactive; leave one out")
    use_threads(threads)
    lm = load(model, device=device)
    if interactive:
        _interact(Prompt(lm, min(count, 9), unk, context + " " * bool(context)))
        return
    found = lm.next_words(context, count, prefix, unk=unk)
    tell_unknown_of(lm, context)
    if as_json:
        likeliest = [{"word": word, "probability": p} for word, p in found]
        screen.print_json({"context": context, "words": likeliest})
        return
    if not found:
        screen.note(f"no word of the vocabulary begins with {prefix!r}")
    for word, probability in found:
        screen.write(f"{probability:.6f}\t{word}\n")


ALT = "\x1b"  # what terminals send before a key that is pressed with Alt
BACKSPACES, CTRL_U, CTRL_W = "\x7f\b", "\x15", "\x17"
HINTS = 30  # columns of a line that suggestions have at least, where the terminal has as many again


@dataclass
class Prompt:
    """A line being typed, what the lines before left, and what the model suggests for the word at the line's end."""

    lm: LM
    count: int
    unk: bool = False
    text: str = ""
    before: Any = None  # a state; None: nothing was before

    @property
    def unknown(self) -> list[str]:
        """Words before the one at the line's end that the model does not know, as they were typed."""
        words = self.lm.vocabulary.rules.split(self.text.rpartition(" ")[0])
        return [word for word in words if word not in self.lm]

    @property
    def suggestions(self) -> list[str]:
        words = self.text.split(" ")
        state = self.lm.state(" ".join(words[:-1]), self.before)
        found = self.lm.next_words(state, self.count, words[-1], unk=self.unk)
        return [word for word, _ in found]

    def press(self, key: str) -> None:
        """Tab, and Alt with a digit, take a suggestion; backspace, Ctrl-W and Ctrl-U delete; all else is typed."""
        chosen = 0 if key == "\t" else int(key[1:]) - 1 if key.startswith(ALT) else -1
        if key in BACKSPACES:
            self.text = self.text[:-1]
        elif key == CTRL_W:
            before, space, _ = self.text.rstrip(" ").rpartition(" ")
            self.text = before + space
        elif key == CTRL_U:
            self.text = ""
        elif chosen < 0:
            self.text += key if key.isprintable() else ""
        elif chosen < len(suggestions := self.suggestions):
            self.text = "".join(part + " " for part in self.text.split(" ")[:-1]) + suggestions[chosen] + " "

    def entered(self) -> Prompt:
        """The next line; a model that reads texts as streams goes on from this one, and a cache holds its words."""
        before = self.lm.go_on(self.lm.state(self.text, self.before), self.lm.vocabulary.eos_id)
        return Prompt(self.lm, self.count, self.unk, before=before)


def _interact(prompt: Prompt) -> None:
    """Read keys, show the line and the suggestions beneath the cursor, until Ctrl-D."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LightRNNError("--interactive needs a terminal; without one, call lightrnn next for each context")
    screen.note("type; Tab takes the first suggestion, Alt-2 the second, Enter ends the sentence, Ctrl-D the program")
    try:
        with _keys() as keys:
            _show(prompt)
            for key in keys:
                if key in "\r\n":
                    _write(prompt)
                    prompt = prompt.entered()
                else:
                    prompt.press(key)
                _show(prompt)
            if prompt.text.strip():
                _write(prompt)
    finally:
        _clear()


def _clear() -> None:
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _write(prompt: Prompt) -> None:
    _clear()
    sys.stdout.write(prompt.text.rstrip() + "\r\n")
    sys.stdout.flush()


def _show(prompt: Prompt) -> None:
    offered = [f"{i}:{word}" for i, word in enumerate(prompt.suggestions, 1)] or ["no word begins so"]
    note = [f"({word} is not in the vocabulary)" for word in prompt.unknown[-1:]]
    typed, hints = fitting(prompt.text, offered, shutil.get_terminal_size().columns, note)
    back = f"\r\x1b[{cell_len(typed)}C" if typed else "\r"
    sys.stderr.write(f"\r\x1b[K{typed}\x1b[2m{hints}\x1b[0m{back}")
    sys.stderr.flush()


def fitting(text: str, offered: list[str], columns: int, note: Sequence[str] = ()) -> tuple[str, str]:
    """The end of a line that is typed and what is offered beneath the cursor, as much as one row of a terminal has; a
    note before it where that leaves room for something."""
    room = max(columns - 1, 1)  # at the last column some terminals begin a new row
    most = max(room - HINTS, room // 2)
    if cell_len(text) > most:
        while text and cell_len(text) >= most:
            text = text[1:]
        text = "…" + text
    hints = ""
    for hint in (*note, *offered):
        longer = f"{hints}  {hint}" if hints else f"   {hint}"
        if cell_len(text + longer) > room:
            break
        hints = longer
    return fitting(text, offered, columns) if note and offered[0] not in hints else (text, hints)


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Keys as they are pressed, up to Ctrl-D, from a terminal that does not echo them."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)

    def pressed() -> Iterator[str]:
        while (key := pressed_key()) not in ("", "\x04"):
            if key == "\x03":
                raise KeyboardInterrupt
            yield key

    try:
        yield pressed()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def pressed_key() -> str:
    """The next key, empty where there are no more; a digit that is pressed with Alt has ALT before it, arrows and other
    keys that are sequences are left out."""
    while (key := sys.stdin.read(1)) == ALT:
        while (key := sys.stdin.read(1)) == ALT:
            pass
        if key not in ("[", "O"):
            return ALT + key if key.isdecimal() and key != "0" else key
        while (key := sys.stdin.read(1)) and not "@" <= key <= "~":
            pass
    return key


next_.__name__ = "next"
