"""The parser of commands: argparse with help and error messages in the reader's language.

Texts of help are declared in English, as all sentences are, and translated when help is printed. Messages about wrong
usage are those that forms use too. Wrong usage prints the usage line of the command and ends the program with status 2.
"""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter, _SubParsersAction
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ibi.errors import IbiError
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    from argparse import Namespace, _MutuallyExclusiveGroup
    from collections.abc import Iterable, Iterator, Sequence

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


_HELP: Final = {
    "usage": "usage:",
    "options": "options",
    "commands": "commands",
    "positional arguments": "arguments",
    "show this help message and exit": "show this help and end",
    "show program's version number and exit": "show the version and end",
}
"""Texts of argparse, and ours in their place."""


class HelpWriter(HelpFormatter):
    """Writes help in the reader's language; a text of several lines is a table, whose lines stay as they are."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[Action],
        groups: Iterable[_MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Add the usage line."""
        super().add_usage(usage, actions, groups, f"{_help_text('usage')} " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        """Begin a group of arguments or of commands."""
        super().start_section(_help_text(heading))

    def add_text(self, text: str | None) -> None:
        """Add a description or an epilog."""
        super().add_text(_help_text(text))

    def _get_help_string(self, action: Action) -> str | None:
        return _help_text(action.help)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))


class Parser(ArgumentParser):
    """A parser of a command; it may have subcommands too, such as `ibi mint` and `ibi mint serve`.

    argparse cannot do that: it would require the required options of the command for its subcommands too.
    `words`: these subcommands; `headings`: the words of commands that stand together in help, by their heading.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpWriter} | named)
        self.words: dict[str, Parser] = {}
        self.headings: dict[str, Sequence[str]] = {}
        self._listed: list[Action] = []  # the subcommands as help lists them

    def add_word(self, word: str, help: str, **named: Any) -> Parser:  # noqa: A002 - argparse calls it so
        """Add a subcommand, and return the parser for its arguments."""
        parser = self.words[word] = Parser(prog=f"{self.prog} {word}", **{"description": help} | named)
        self._listed.append(Action([], word, metavar=word, help=help))
        return parser

    def list_under(self, heading: str, *words: str) -> None:
        """List commands under a heading of their own in the help."""
        self.headings[heading] = words

    def subcommands(self) -> dict[str, tuple[Parser, str]]:
        """Return the commands below this one that help lists, and what it says of each."""
        found: dict[str, Parser] = dict(self.words)
        listed = list(self._listed)
        for action in self._actions:
            if isinstance(action, _SubParsersAction):
                found |= action.choices
                listed += action._get_subactions()  # noqa: SLF001 - argparse itself reads it so
        return {each.dest: (found[each.dest], self.text_of(each)) for each in listed}

    def shown_arguments(self) -> list[Action]:
        """Return the arguments that help lists, without its subcommands."""
        return [
            each
            for each in self._actions
            if each.help is not SUPPRESS and not isinstance(each, _SubParsersAction)
        ]

    def text_of(self, action: Action) -> str:
        """Return the help of an argument or of a subcommand on one line, in the reader's language."""
        return self._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001 - as above

    def spelled(self, action: Action) -> str:
        """Return an argument as help spells it: "--data DIR"."""
        return self._get_formatter()._format_action_invocation(action)  # noqa: SLF001 - as above

    def format_help(self) -> str:
        """Return the help: commands in a list under each heading, without argparse's line for all of them."""
        writer = self._get_formatter()
        writer.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        writer.add_text(self.description)
        for heading, actions in self._sections():
            writer.start_section(heading)
            writer.add_arguments(actions)
            writer.end_section()
        writer.add_text(self.epilog)
        return writer.format_help()

    def _sections(self) -> Iterator[tuple[str | None, Sequence[Action]]]:
        """Yield each heading of the help with what stands below it: arguments or subcommands."""
        for group in self._action_groups:
            actions = list(group._group_actions)  # noqa: SLF001 - argparse itself reads it so
            commands = next((each for each in actions if isinstance(each, _SubParsersAction)), None)
            if commands is None:
                yield group.title, actions
            else:
                yield from self._grouped(list(commands._get_subactions()))  # noqa: SLF001 - as above
        yield from self._grouped(self._listed)

    def _grouped(self, commands: list[Action]) -> Iterator[tuple[str, Sequence[Action]]]:
        by_word = {each.dest: each for each in commands}
        for heading, words in self.headings.items():
            yield heading, [by_word.pop(word) for word in words if word in by_word]
        if by_word:
            yield "commands", [*by_word.values()]

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
        commands = next((each for each in self._actions if isinstance(each, _SubParsersAction)), None)
        if commands is not None and message.endswith(f"are required: {commands.metavar}"):
            message = say("say which command; they are listed by: {prog} --help", prog=self.prog)
        self.exit(2, f"{self.prog}: {printable(_translated(message))}\n")


def _help_text(text: str | None) -> str | None:
    """Return a text of help in the reader's language."""
    return text if text is None or text is SUPPRESS else say(_HELP.get(text, text))


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
