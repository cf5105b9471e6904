"""Command-line flags from the fields of dataclasses: names, types, help and defaults. Every misuse is one sentence.

The parser returns only the values that were given, so that they can be distinguished from defaults.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import decimal
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NoReturn

from veldt.errors import UsageError, did_you_mean
from veldt.setting_metadata import TOO_LARGE, annotated_hints_of, bound_of_64_bits, check_path, schedule
from veldt.setting_text import flag, in_help

_NEGATIVE_NUMBER = re.compile(r"-[\d.]")
_UNKNOWN: Any = object()
_SWITCH = "a switch takes no value; write --NAME, or --no-NAME for no"


class Positional:
    """Annotation of a positional argument: `run: Annotated[Path, Positional]`."""


@dataclass(frozen=True)
class Setting:
    """One field of a dataclass, as an argument of the command line."""

    name: str
    kind: Any
    help: str
    positional: bool
    required: bool
    optional: bool
    repeats: bool

    @property
    def flag(self) -> str:
        return flag(self.name)

    @property
    def flags(self) -> list[str]:
        """All spellings of the flag; none for a positional argument."""
        if self.positional:
            return []
        return [self.flag, self.flag.replace("--", "--no-", 1)] if self.kind is bool else [self.flag]

    @property
    def shown(self) -> str:
        """The placeholder in a help text: of the value, or of the argument itself if it is positional."""
        if self.positional:
            return self.name.upper()
        choices = typing.get_args(self.kind)
        return "{" + ",".join(choices) + "}" if choices else self.kind.__name__.upper()

    def value(self, text: str) -> Any:
        """Parses `text`. UsageError where it is not a value of this setting."""
        if self.optional and text in ("None", "none"):
            return None
        if self.kind is Path:
            check_path(self.shown if self.positional else self.flag, text, required=not self.optional)
        choices = typing.get_args(self.kind)
        if choices and text in choices:
            return text
        if choices:
            must = f"it must be one of {', '.join(choices)}{did_you_mean(text, choices)}"
        else:
            try:
                return _whole_number(text) if self.kind is int else self.kind(text)
            except (ValueError, ArithmeticError):
                must = f"it must be {'a whole number' if self.kind is int else 'a number'}"
                if self.repeats and "," in text:
                    must += f", or several with spaces between them: {self.flag} {text.replace(',', ' ')}"
            except _TooLarge as too_large:
                must = f"it must be {too_large}"
        given = f"'{text}' cannot be {self.shown}" if self.positional else f"{self.flag} is '{text}'"
        raise UsageError(f"{given}: {must}")


def settings_of(
    cls: type[Any], *, defaults: bool = True, values: Mapping[str, Any] = MappingProxyType({})
) -> list[Setting]:
    """Returns the settings of a dataclass.

    Args:
        defaults: whether the help shows the defaults.
        values: defaults by name, in the place of the class's own.
    """
    hints, help_texts = annotated_hints_of(cls), _field_docstrings(cls)
    settings = []
    for field in dataclasses.fields(cls):
        kind, *extras = _unwrapped(hints[field.name])
        # typing.Union, where one part is a Literal.
        optional = typing.get_origin(kind) in (types.UnionType, typing.Union)
        if set(typing.get_args(kind)) == {float, str}:
            kind, optional = schedule, False
        elif optional:
            kind = next(part for part in typing.get_args(kind) if part is not type(None))
        repeats = typing.get_origin(kind) is tuple
        if repeats:
            kind = typing.get_args(kind)[0]
        default = values.get(field.name, _default(field))
        help_text = help_texts.get(field.name, "")
        if defaults and default is not _UNKNOWN and default is not None:
            help_text += f" [{in_help(default)}]"
        positional, required = Positional in extras, default is _UNKNOWN
        settings.append(Setting(field.name, kind, help_text, positional, required, optional, repeats))
    return settings


def _refuse_twice(action: argparse.Action, namespace: argparse.Namespace) -> None:
    """Refuses a flag that is given twice: one of the values would be ignored."""
    if hasattr(namespace, action.dest):
        raise argparse.ArgumentError(action, "given twice")


class _StoreOnce(argparse.Action):
    """Stores the value of a flag, which may be given once."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        _refuse_twice(self, namespace)
        setattr(namespace, self.dest, values)


class _SwitchOnce(argparse.BooleanOptionalAction):
    """The same for a switch and its --no- flag."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        _refuse_twice(self, namespace)
        super().__call__(parser, namespace, values, option)


class HelpShown(SystemExit):
    """Raised after the help was printed. Any other SystemExit in a verb comes from user code."""


class _Parser(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown(status)


class CommandLine:
    """The arguments of one verb.

    Args:
        why_none: returns a sentence on why there is no flag of that name, or None for the general message.
    """

    def __init__(
        self, verb: str, summary: str, why_none: Callable[[str], str | None] = lambda name: None
    ) -> None:
        self._verb, self._settings, self._why_none = verb, list[Setting](), why_none
        self._parser = _Parser(
            description=summary,
            epilog="--debug adds a traceback to an error.",
            allow_abbrev=False,
            exit_on_error=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30),
        )

    def add(
        self,
        cls: type[Any],
        title: str | None = None,
        *,
        only: Collection[str] | None = None,
        defaults: bool = True,
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Adds the settings of a dataclass.

        Args:
            title: of their group in the help.
            only: the names of the settings to add; all if None.
            defaults, values: as for `settings_of`.
        """
        group = self._parser.add_argument_group(title, cls.__doc__) if title else self._parser
        for setting in settings_of(cls, defaults=defaults, values=values):
            if only is not None and setting.name not in only:
                continue
            self._settings.append(setting)
            if setting.positional:
                choices = typing.get_args(setting.kind)
                words = f"{', '.join(choices)}. {setting.help}" if choices else setting.help
                self._parser.add_argument_group(setting.shown, words)
                continue
            help_text = setting.help.replace("%", "%%")
            if setting.kind is bool:
                group.add_argument(setting.flag, action=_SwitchOnce, help=help_text)
            else:
                nargs = "+" if setting.repeats else None
                group.add_argument(
                    setting.flag,
                    action=_StoreOnce,
                    type=setting.value,
                    nargs=nargs,
                    metavar=setting.shown,
                    help=help_text,
                )

    def parse(self, arguments: list[str]) -> dict[str, Any]:
        """Returns the values that were given, by name; prints the help and exits on --help.

        Raises:
            UsageError: a flag is unknown or missing, or its value is not allowed.
        """
        self._parser.usage = self._usage()
        see = f"see `veldt {self._verb} --help`"
        try:
            known, rest = self._parser.parse_known_args(self._plain(arguments))
            given = vars(known) | self._places(rest, vars(known))
        except argparse.ArgumentError as error:
            flag = (error.argument_name or "").partition("/")[0]
            is_switch = "explicit argument" in error.message
            raise UsageError(f"{flag}: {_SWITCH if is_switch else error.message} ({see})") from None
        except UsageError as error:
            raise UsageError(f"{error} ({see})") from None
        for setting in self._settings:
            if setting.required and setting.name not in given:
                raise UsageError(f"{setting.shown if setting.positional else setting.flag} is missing: {see}")
            if setting.repeats and setting.name in given:
                given[setting.name] = tuple(given[setting.name])
        return given

    def _plain(self, arguments: list[str]) -> list[str]:
        """Rewrites arguments as argparse expects them: `--flag-name`, and `--flag=-1e3` for a negative number.

        Among several values of one flag, a negative number has to be written without an exponent.
        """
        repeating = {setting.flag for setting in self._settings if setting.repeats}
        words: list[str] = []
        last = ""  # the last flag, if it may still take values
        for word in arguments:
            if word.startswith("--"):
                flag, equals, value = word.partition("=")
                words.append(flag.replace("_", "-") + equals + value)
                last = "" if equals else words[-1]
            elif _NEGATIVE_NUMBER.match(word) and last in repeating:
                words.append(_without_exponent(word))
            elif _NEGATIVE_NUMBER.match(word) and words and words[-1] == last:
                words[-1] += f"={word}"
            else:
                words.append(word)
        return words

    def _places(self, rest: list[str], known: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the positional values, from the words that no flag took; `known` are the values of flags."""
        flags = [flag for setting in self._settings for flag in setting.flags]
        places = [setting for setting in self._settings if setting.positional]
        given: dict[str, Any] = {}
        for word in rest:
            if word.startswith("-"):
                flag = word.partition("=")[0]
                name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
                if places and Path(word).exists():
                    raise UsageError(f"no flag {flag}: write the path that begins with a dash as ./{word}")
                raise UsageError(self._why_none(name) or f"no flag {flag}{did_you_mean(flag, flags)}")
            if not places:
                missing = (s.flag for s in self._settings if s.required and s.flags and s.name not in known)
                advice = f": give it as {flag} {word}" if (flag := next(missing, "")) else ""
                if word.lower() in ("true", "false", "yes", "no"):
                    advice = f": {_SWITCH}"
                raise UsageError(f"'{word}' is one argument too many{advice}")
            place = places[0]
            if place.repeats:
                given.setdefault(place.name, []).append(place.value(word))
            else:
                given[places.pop(0).name] = place.value(word)
        return given

    def _usage(self) -> str:
        words = [f"veldt {self._verb}"]
        for setting in self._settings:
            if setting.positional:
                words.append(setting.shown if setting.required else f"[{setting.shown}]")
                words += [f"[{setting.shown} ...]"] if setting.repeats else []
            elif setting.required:
                words.append(f"{setting.flag} {setting.shown}")
        return " ".join([*words, "[flags]"])


def parse(
    cls: Any, arguments: list[str], verb: str, why_none: Callable[[str], str | None] = lambda name: None
) -> Any:
    """Parses the arguments of a verb into the dataclass `cls` that describes them; `why_none` as for `CommandLine`."""
    line = CommandLine(verb, inspect.getdoc(cls) or "", why_none)
    line.add(cls)
    return cls(**line.parse(arguments))


def _without_exponent(text: str) -> str:
    """Returns -1000 for -1e3; what is no number as it is."""
    try:
        return format(decimal.Decimal(text), "f")
    except ArithmeticError:
        return text


class _TooLarge(Exception):
    """A whole number does not fit into 64 bits; the message is the bound that it has to keep."""


def _whole_number(text: str) -> int:
    """Parses 10, 1_000 or 1e6. ValueError or ArithmeticError unless it is whole; `_TooLarge` beyond 64 bits."""
    number = decimal.Decimal(text)
    if number.is_finite() and abs(number) >= TOO_LARGE:
        raise _TooLarge(bound_of_64_bits(number > 0))
    if number != number.to_integral_value():
        raise ValueError(text)
    return int(number)


def _unwrapped(hint: Any) -> tuple[Any, ...]:
    """Returns a type and its annotations."""
    return typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)


def _default(field: dataclasses.Field[Any]) -> Any:
    return _UNKNOWN if field.default is dataclasses.MISSING else field.default


def _field_docstrings(cls: type[Any]) -> dict[str, str]:
    """Returns the docstring below each field of a dataclass, including inherited fields."""
    docstrings: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            if not isinstance(field, ast.AnnAssign) or not isinstance(below, ast.Expr):
                continue
            if isinstance(below.value, ast.Constant):
                docstrings[ast.unparse(field.target)] = str(below.value.value)
    return docstrings
