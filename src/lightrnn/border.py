"""The border between files and the program: what comes from JSON or TOML is checked against a declaration.

    POINT = record({"seconds": number(least=0), "words": whole()}, optional={"note": text()})
    check(value, list_of(POINT), "curve.json", "make it again")

A rule is called with a value and its place in the file and raises at the first thing that is wrong. `check` makes one
sentence of that: the file, the field, the rule, what was got, what to do. Fields that no declaration names are let be.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import LightRNNError

DEEPEST = 50  # lists and objects inside each other
LONGEST = 60  # characters of a value that an error shows
FINITE = 1.7e308

Rule = Callable[[Any, str], None]


class _WrongError(Exception):
    """What is wrong, without the file."""


def check(value: Any, rule: Rule, origin: str, remedy: str) -> Any:
    """The value, if the rule has nothing against it."""
    try:
        rule(value, "")
    except _WrongError as wrong:
        raise LightRNNError(f"{origin}: {wrong}; {remedy}") from None
    return value


def parse_json(data: bytes | str, origin: str, remedy: str) -> Any:
    """JSON as the standard has it: no NaN, no field twice, nothing nested without end."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        check_nesting(value)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise LightRNNError(f"{origin} is not valid JSON ({reason}); {remedy}") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is there twice")
    return fields


def check_nesting(value: Any) -> None:
    level, depth = [value], 0
    while level := [
        inner
        for outer in level
        if isinstance(outer, dict | list)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError("nested too deeply")


def shown(value: Any) -> str:
    """A value short enough for an error."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _rule(noun: str, accepts: Callable[[Any], bool]) -> Rule:
    def rule(value: Any, place: str) -> None:
        if not accepts(value):
            raise _WrongError(f"{place or 'what it holds'} must be {noun}, got {shown(value)}")

    return rule


def whole(least: int = 0, most: int = 2**53) -> Rule:
    return _rule(f"a whole number from {least:,} to {most:,}", lambda v: type(v) is int and least <= v <= most)


def number(least: float = -FINITE, most: float = FINITE) -> Rule:
    """Whole or not, finite."""
    bounds = [f"at {word} {limit:g}" for word, limit in (("least", least), ("most", most)) if abs(limit) < FINITE]
    return _rule(f"a number {' and '.join(bounds)}".strip(), lambda v: type(v) in (int, float) and least <= v <= most)


def text(longest: int = 1000) -> Rule:
    """A string that can be printed and written: no control characters, no half of a surrogate pair."""
    return _rule(
        f"a string of at most {longest:,} printable characters",
        lambda v: isinstance(v, str) and len(v) <= longest and not any(_is_odd(character) for character in v),
    )


def _is_odd(character: str) -> bool:
    return character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff"


def file_name() -> Rule:
    """A path, which may hold bytes that are not UTF-8 as Python writes them."""
    return _rule("the name of a file", lambda v: isinstance(v, str) and _can_be_path(v))


def _can_be_path(name: str) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        return b"\0" not in os.fsencode(name)
    return False


def digest() -> Rule:
    return _rule("64 hexadecimal figures", lambda v: isinstance(v, str) and len(v) == 64 and set(v) <= _FIGURES)


_FIGURES = set("0123456789abcdef")


def true_or_false() -> Rule:
    return _rule("true or false", lambda v: isinstance(v, bool))


def one_of(choices: Sequence[str]) -> Rule:
    return _rule(f"one of {', '.join(choices)}", lambda v: v in choices)


def maybe(rule: Rule) -> Rule:
    """null, or what the rule says."""

    def check_unless_null(value: Any, place: str) -> None:
        if value is not None:
            rule(value, place)

    return check_unless_null


def list_of(rule: Rule, least: int = 0, most: int = 10**6) -> Rule:
    is_list = _rule(
        f"a list of {least:,} to {most:,} entries", lambda v: isinstance(v, list) and least <= len(v) <= most
    )

    def check_list(value: Any, place: str) -> None:
        is_list(value, place)
        for index, entry in enumerate(value):
            rule(entry, f"{place}[{index}]")

    return check_list


def record(fields: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None) -> Rule:
    """An object with these fields, and perhaps the optional ones."""
    is_object = _rule("an object", lambda v: isinstance(v, dict))

    def check_record(value: Any, place: str) -> None:
        is_object(value, place)
        for name, rule in {**fields, **(optional or {})}.items():
            inside = f"{place}.{name}" if place else name
            if name in value:
                rule(value[name], inside)
            elif name in fields:
                raise _WrongError(f"{inside} is missing")

    return check_record


def one_field(choices: Mapping[str, Rule]) -> Rule:
    """An object with one of these fields and nothing else."""
    is_one = _rule(
        f"an object with one of the fields {', '.join(choices)}",
        lambda v: isinstance(v, dict) and len(v) == 1 and set(v) <= set(choices),
    )

    def check_field(value: Any, place: str) -> None:
        is_one(value, place)
        record({}, choices)(value, place)

    return check_field
