"""Commands of operations: fields become options, whose values are read as those of a request over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ibi.api.fields import described, read, values_of
from ibi.cli.common import CommandGroup, argument, flag, tell
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping, Sequence

    from ibi.api.fields import F, FieldInfo, Fields
    from ibi.api.operations import C, Operation


def add_operation(
    actions: CommandGroup,
    operation: Operation[Any, Any],
    run: Callable[[Namespace], int],
    epilog: str | None = None,
    *,
    name: str = "",
    optional: bool = False,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> ArgumentParser:
    """Add the command of an operation: it calls `run`, and has an option or a position for each field.

    If `optional`, no field is required. `choices`: the values that this service allows, for the help, by name of field.
    """
    parser = actions.add(name or operation.name, operation.summary, run, epilog)
    add_fields(parser, operation.fields, optional=optional, choices=choices)
    return parser


def add_fields(
    parser: ArgumentParser,
    kind: type[Fields],
    *,
    optional: bool = False,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Add an option or a position for each field; the rest as in `add_operation`."""
    for each in described(kind):
        if each.option is None:
            continue
        usage = each.option or f"{option_of(each.name)} {_shown(each)}"
        more: dict[str, Any] = {"action": "append"} if each.is_list else {}
        if choices and each.name in choices:  # the operation checks it: one sentence for every way
            usage += f" {{{','.join(choices[each.name])}}}"
        if each.choices and " " not in usage:
            more["choices"] = [*filter(None, each.choices)]  # "" is the option that is not given
        if not usage.startswith("-"):
            more |= {} if each.required and not optional else {"nargs": "?"}
        elif each.is_truth and " " not in usage:
            flag(parser, usage, each.text, dest=each.name)
            continue
        else:
            more |= {"dest": each.name, "required": each.required and not optional}
        argument(parser, usage, _help(each), **more)


def fields_of(args: Namespace, kind: type[F]) -> F:
    """Read the fields that were given. Raises BadField."""
    return read(kind, values_of_options(args, kind))


def values_of_options(args: Namespace, kind: type[Fields]) -> dict[str, Any]:
    """Return the fields that were given, as in JSON. Raises BadField."""
    texts: dict[str, list[str]] = {}
    for each in described(kind):
        value = None if each.option is None else getattr(args, each.name, None)
        if value is None:
            continue
        if isinstance(value, bool):
            texts[each.name] = ["yes" if value else "no"]
        else:
            texts[each.name] = value if isinstance(value, list) else [value]
    return values_of(kind, texts)


def result_of(operation: Operation[C, F], context: C, fields: F) -> dict[str, Any]:
    """Run an operation and return its result; {} if it returns nothing or a document."""
    result = operation.run(context, fields)
    return result if isinstance(result, dict) else {}


def option_of(name: str) -> str:
    """Return the option for a field."""
    return f"--{name.replace('_', '-')}"


def print_result(result: dict[str, Any], *, as_json: bool) -> None:
    """Print a result: one JSON document, or a line for each of its members."""
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
        return
    for name, value in result.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(printable(f"{name}: {text}"))


def tell_note(note: Any) -> None:
    """Print a note about the result on stderr."""
    tell(note)


def _shown(info: FieldInfo) -> str:
    return "N" if info.is_number else "yes|no" if info.is_truth else info.name.upper()


def _help(info: FieldInfo) -> str:
    if not info.is_list:
        return info.text
    if info.is_unset_by_default:
        return say("{text}; may be repeated, and replaces what was there; '' for none", text=say(info.text))
    return say("{text}; may be repeated", text=say(info.text))
