"""The parser of commands: argparse with our error messages, which forms use too, in the reader's language.

Wrong usage prints the usage line of the command and ends the program with status 2.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ibi.errors import IbiError
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

# Messages of argparse and ours in their place, which are the same as for wrong fields in JSON and in forms.
_COMPLAINTS: Final = tuple(
    (re.compile(pattern, re.DOTALL), sentence)
    for pattern, sentence in (
        (r"the following arguments are required: (?P<name>[^,]+).*", IbiError("the field {name} is missing")),
        (r"one of the arguments (?P<names>.+) is required", IbiError("one of these must be given: {names}")),
        (
            r"argument (?P<name>\S+): invalid choice: .*\(choose from (?P<words>.*)\)",
            IbiError("{name} is one of: {words}"),
        ),
        (
            r"argument (?P<name>\S+): a whole number from (?P<least>\d+) to (?P<most>\d+)",
            IbiError("{name} is a whole number from {least} to {most}"),
        ),
        (r"argument (?P<name>\S+): expected .*", IbiError("{name} needs a value")),
        (r"argument (?P<name>\S+): ignored explicit .*", IbiError("{name} takes no value")),
        (
            r"argument (?P<name>\S+): not allowed with argument (?P<other>\S+)",
            IbiError("{name} and {other} exclude each other"),
        ),
        (
            r"ambiguous option: (?P<name>\S+) could match (?P<words>.*)",
            IbiError("{name} may be any of: {words}"),
        ),
        (r"argument (?P<text>\S+): (?P<reason>.*)", IbiError("{text}: {reason}")),
    )
)


class Parser(ArgumentParser):
    """A parser of a command that also has subcommands, such as `ibi mint` and `ibi mint serve`.

    argparse cannot do that: it would require the required options of the command for its subcommands too.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.words: dict[str, Parser] = {}

    def add_word(self, word: str, help: str) -> Parser:  # noqa: A002 - argparse calls it so
        """Add a subcommand, and return the parser for its arguments."""
        parser = self.words[word] = Parser(prog=f"{self.prog} {word}", description=help)
        listed = "".join(f"  {self.prog} {name:<10}{each.description}\n" for name, each in self.words.items())
        self.epilog = f"also:\n{listed}"
        return parser

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse, with the subcommand's parser if one comes first; unknown arguments are wrong usage."""
        if args and args[0] in self.words:
            return self.words[args[0]].parse_known_args(args[1:], namespace)
        found, others = super().parse_known_args(args, namespace)
        if others:
            self.error(say("{text} does not belong here", text=others[0]))
        return found, others

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the usage, and end the program with status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {printable(_translated(message))}\n")


def _translated(message: str) -> str:
    """Return our sentence for a message of argparse; any other message is ours already."""
    for pattern, sentence in _COMPLAINTS:
        found = pattern.fullmatch(message)
        if found is not None:
            details = found.groupdict()
            if "words" in details:  # some versions of argparse quote each
                details["words"] = details["words"].replace("'", "")
            return say(sentence, **details)
    return message
