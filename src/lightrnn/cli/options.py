"""Options that several commands share, so that the same thing has the same name everywhere."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ..config import Settings, field_choices, option_name
from ..errors import LightRNNError

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A folder of `lightrnn train` or `mix`, or a file of `lightrnn pack` or `ngram`."
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=0, max=4096, help="CPU threads; 0: all cores.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
ShowUnkOption = Annotated[
    bool, typer.Option("--unk", help="The unknown word too, which nobody can read; it is left out otherwise.")
]
ConventionOption = Annotated[
    str,
    typer.Option(
        "--convention", metavar="stream|sentence", help="Carry the state from line to line, or score each by itself."
    ),
]
UnkOption = Annotated[
    str | None,
    typer.Option(
        "--unk",
        metavar="score|skip|penalty=X",
        help="Unknown words: score as the unknown word, leave out of the sums, or score and add X, a logarithm in the "
        "base of the scores, for each. score unless given.",
    ),
]
ErrorsOption = Annotated[
    str,
    typer.Option(
        "--errors", metavar="strict|replace", help="Stop at bytes that are not UTF-8, or read U+FFFD in their place."
    ),
]


def choice(option: str, value: str, kind: Any) -> None:
    """Refuse a value that is not one of a Literal's."""
    if value not in get_args(kind):
        raise LightRNNError(f"{option} must be one of {', '.join(get_args(kind))}, got {value!r}")


def with_settings(*sections: type[Settings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every field of some settings; it gets those that were used as **overrides."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        given = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                declared.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_annotation(section, declared),
            )
            for section in sections
            for declared in fields(section)
        ]

        def call(**values: Any) -> None:
            used = {p.name: value for p in added if (value := values.pop(p.name)) is not None}
            command(**values, **used)

        call.__doc__ = command.__doc__
        call.__name__ = command.__name__
        call.__signature__ = signature.replace(parameters=[*given, *added])  # type: ignore[attr-defined]
        return call

    return decorate


def _annotation(section: type[Settings], declared: Any) -> Any:
    or_word = declared.metadata["or_word"]
    kind = type(declared.default)
    name = option_name(declared.name)
    choices = field_choices(declared)
    option = typer.Option(
        f"{name}/--no-{name[2:]}" if kind is bool else name,
        help=declared.metadata["about"][0].upper() + declared.metadata["about"][1:] + ".",
        rich_help_panel=f"Recipe fields: {section.section}",
        metavar=f"N|{or_word}" if or_word else "|".join(choices) or None,
        show_default=False,
    )
    if or_word:
        option.parser = lambda value: int(value) if value.isdecimal() and len(value) < 19 else value
    return Annotated[kind | None, option]
