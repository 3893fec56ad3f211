"""`ibi completion`: prints a script with which a shell completes commands, options and their values.

The scripts are made of the parsers, so that they know what `--help` knows. A shell runs them alone: completing starts
no Python. All three find the command that is typed (`ibi archive import`) among the words before the cursor, and then
look up what may follow it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from ibi.cli.common import argument

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from ibi.cli.parser import Parser

_FOLDERS: Final = {"DIR", "FOLDER"}
_FILES: Final = {"FILE", "PATH", "RECEIPT", "LIST"}
_EPILOG: Final = """\
bash:  ibi completion bash > ~/.local/share/bash-completion/completions/ibi
zsh:   ibi completion zsh > a folder of $fpath/_ibi
fish:  ibi completion fish > ~/.config/fish/completions/ibi.fish
"""


@dataclass(frozen=True, slots=True)
class Value:
    """What an option or a position takes: one of `words`, or else a path of this `kind`, or any text."""

    words: tuple[str, ...] = ()
    kind: str = ""
    """"folders", "files", or "" for any other text."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it is typed, and what may follow it; each with its help."""

    typed: str
    commands: dict[str, str]
    options: dict[str, tuple[str, Value | None]]
    """By option; None for one that takes no value."""
    positions: Value


def add_parser(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `completion` to the commands."""
    text = "print a script with which a shell completes commands and options"
    parser = commands.add_parser("completion", help=text, description=text, epilog=_EPILOG)
    argument(parser, "shell SHELL", "the shell", choices=tuple(_WRITERS))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from ibi.cli import command_parser

    print(_WRITERS[args.shell](list(commands_of(command_parser()))))
    return 0


def commands_of(parser: Parser) -> Iterable[Command]:
    """Yield a command and all below it."""
    options: dict[str, tuple[str, Value | None]] = {}
    positions = Value()
    for action in parser.shown_arguments():
        if not action.option_strings:
            positions = _value(action)
            continue
        value = None if action.nargs == 0 else _value(action)
        options |= {name: (parser.text_of(action), value) for name in action.option_strings}
    below = parser.subcommands()
    yield Command(parser.prog, {word: text for word, (_, text) in below.items()}, options, positions)
    for child, _ in below.values():
        yield from commands_of(child)


def _value(action: argparse.Action) -> Value:
    shown = str(action.metavar or "")
    listed = re.fullmatch(r"(?:\w+ )?\{(.+)\}", shown)  # values that the service checks, not argparse
    if action.choices is not None:
        return Value(tuple(map(str, action.choices)))
    if listed or "|" in shown:
        return Value(tuple(re.split(r"[,|]", listed[1] if listed else shown)))
    return Value(kind="folders" if shown in _FOLDERS else "files" if shown in _FILES else "")


def _cases(rows: Iterable[tuple[Sequence[str], str]]) -> str:
    """Return the branches of a `case` of bash or zsh: (patterns, what is done for them)."""
    return "\n".join(f"      {'|'.join(map(quote, texts))}) {done} ;;" for texts, done in rows if texts)


def _of_values(commands: list[Command], done: Callable[[Value], str]) -> list[tuple[list[str], str]]:
    """Return (what is typed up to an option, what is done for its value), equal ones together."""
    rows: dict[Value, list[str]] = {}
    for each in commands:
        for option, (_, value) in each.options.items():
            if value is not None:
                rows.setdefault(value, []).append(f"{each.typed} {option}")
    return [(typed, done(value)) for value, typed in rows.items()]


def _below(commands: list[Command]) -> list[str]:
    """Return all commands but `ibi` itself, as they are typed."""
    return [each.typed for each in commands[1:]]


def _filled(template: str, commands: list[Command], **cases: Iterable[tuple[Sequence[str], str]]) -> str:
    """Return a script of bash or zsh: its template with the branches of each `case`."""
    cases["commands"] = [(_below(commands), 'typed="$typed $word"')]
    for name, rows in cases.items():
        template = template.replace(f"@{name}@", _cases(rows))
    return template


_BASH: Final = """\
# Completion of ibi for bash, written by: ibi completion bash
_ibi_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
_ibi_paths() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen "$1" -- "$current"); }
_ibi() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} typed=ibi word
  COMPREPLY=()
  if [[ $current == = ]]; then current=
  elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$typed $word" in
@commands@
    esac
  done
  case "$typed $before" in
@values@
  esac
  if [[ $current == -* ]]; then
    case $typed in
@options@
    esac
  else
    case $typed in
@follows@
    esac
  fi
}
complete -F _ibi ibi"""


_ZSH: Final = """\
#compdef ibi
# Completion of ibi for zsh, written by: ibi completion zsh
_ibi() {
  local typed=ibi word
  local -a found
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$typed $word" in
@commands@
    esac
  done
  case "$typed ${words[CURRENT-1]}" in
@values@
  esac
  if [[ $PREFIX == -* ]]; then
    case $typed in
@options@
    esac
    _describe -o option found
  else
    case $typed in
@follows@
    esac
  fi
}
if [[ $funcstack[1] == _ibi ]]; then _ibi "$@"; else compdef _ibi ibi; fi"""


def _bash(commands: list[Command]) -> str:
    def complete(value: Value) -> str:
        if value.words:
            return f"_ibi_words {quote(' '.join(value.words))}"
        return {"folders": "_ibi_paths -d", "files": "_ibi_paths -f"}.get(value.kind, ":")

    values = _of_values(commands, lambda value: f"{complete(value)}; return")
    options = [([each.typed], f"_ibi_words {quote(' '.join(each.options))}") for each in commands]
    follows = []
    for each in commands:
        done = f"_ibi_words {quote(' '.join(each.commands))}" if each.commands else complete(each.positions)
        follows.append(([each.typed], done))
    return _filled(_BASH, commands, values=values, options=options, follows=follows)


def _zsh(commands: list[Command]) -> str:
    def complete(value: Value) -> str:
        if value.words:
            return f"compadd -- {' '.join(map(quote, value.words))}"
        return {"folders": "_files -/", "files": "_files"}.get(value.kind, "_message value")

    def described(texts: dict[str, str]) -> str:
        rows = (quote(f"{name}:{' '.join(text.split())}") for name, text in texts.items())
        return f"found=({' '.join(rows)})"

    options = [
        ([each.typed], described({name: text for name, (text, _) in each.options.items()}))
        for each in commands
    ]
    follows = [
        ([each.typed], f"{described(each.commands)}; _describe command found")
        if each.commands
        else ([each.typed], complete(each.positions))
        for each in commands
    ]
    values = _of_values(commands, lambda value: f"{complete(value)}; return")
    return _filled(_ZSH, commands, values=values, options=options, follows=follows)


def _fish_quoted(text: str) -> str:
    """Quote a text for fish, where a backslash escapes inside single quotes too."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _fish(commands: list[Command]) -> str:
    lines = [
        "# Completion of ibi for fish, written by: ibi completion fish",
        "function __ibi_typed",
        "    set -l typed ibi",
        "    for word in (commandline -opc)[2..-1]",
        '        if contains -- "$typed $word" ' + " ".join(map(_fish_quoted, _below(commands))),
        '            set typed "$typed $word"',
        "        end",
        "    end",
        '    test "$typed" = "$argv"',
        "end",
        "complete -c ibi -f",
    ]
    for each in commands:
        start = f"complete -c ibi -n {_fish_quoted(f'__ibi_typed {each.typed}')}"
        lines += [f"{start} -a {word} -d {_fish_quoted(text)}" for word, text in each.commands.items()]
        if not each.commands and (each.positions.words or each.positions.kind):
            lines.append(f"{start} {_of_fish(each.positions).removeprefix('-x ')}")
        for name, (text, value) in each.options.items():
            spelled = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            takes = "" if value is None else f" {_of_fish(value)}"
            lines.append(f"{start} {spelled}{takes} -d {_fish_quoted(text)}")
    return "\n".join(lines)


def _of_fish(value: Value) -> str:
    if value.words:
        return f"-x -a {_fish_quoted(' '.join(value.words))}"
    return {"folders": "-x -a '(__fish_complete_directories)'", "files": "-r -F"}.get(value.kind, "-x")


_WRITERS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
