"""`ibi archive institution` and `ibi resolver institution`: how the institution presents itself on the pages."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.api.fields import NoFields, given
from ibi.api.institution import SET_INSTITUTION, InstitutionFields, change, show
from ibi.api.operations import OperationContext
from ibi.cli.common import flag, print_changes
from ibi.cli.operations import add_operation, fields_of, option_of, tell_note
from ibi.errors import SetupError
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.i18n import printable, say
from ibi.runtime.settings.institution import LARGEST_PICTURES, data_url

if TYPE_CHECKING:
    import argparse

    from ibi.cli.common import CommandGroup

_EPILOG: Final = """\
Without an option, what is set is shown. An empty text removes one: --logo ''. A running server follows within a second.
"""


@dataclass(slots=True, kw_only=True)
class _CommandContext(OperationContext):
    data: Path


def add_institution(actions: CommandGroup) -> None:
    """Add the command, which is the same for both programs."""
    flag(
        add_operation(actions, SET_INSTITUTION, _run, _EPILOG, name="institution"),
        "--json",
        "one JSON document",
    )


def _run(args: argparse.Namespace) -> int:
    for name in LARGEST_PICTURES:
        setattr(args, name, _picture(name, getattr(args, name)))
    fields = fields_of(args, InstitutionFields)
    context = _CommandContext(
        who="", say=say, if_match="*", called=option_of, noted=tell_note, data=args.data
    )
    if given(fields):
        done = change(context, fields)
        values = {name: done["institution"][name] for name in done["changed"]}
        return print_changes(values, _text, as_json=args.json)
    found = show(context, NoFields())["institution"]
    if args.json:
        print(json.dumps(found))
        return 0
    for name, value in found.items():
        print(f"{name}: {_text(value)}")
    return 0


def _picture(name: str, path: str | None) -> str | None:
    """Return the data URL of a picture in a file; None and "" stay as they are. Raises SetupError."""
    if not path:
        return path
    with setup_errors("{path} cannot be read: {reason}", path=path), Path(path).open("rb") as file:
        content = file.read(LARGEST_PICTURES[name] + 1)
    if len(content) > LARGEST_PICTURES[name]:
        raise SetupError(
            "{name} is larger than {most} bytes", name=option_of(name), most=LARGEST_PICTURES[name]
        )
    return data_url(content)


def _text(value: str) -> str:
    """Write a value for people: a picture by its kind and size, lines joined."""
    if value.startswith("data:"):
        kind = value.partition(":")[2].partition(";")[0]
        return say("{kind}, {bytes} bytes", kind=kind, bytes=len(b64decode(value.partition(",")[2])))
    return printable(" / ".join(value.split("\n"))) or "-"
