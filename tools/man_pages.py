"""Write manual pages from the parsers of the commands, in both languages: a page for `ibi`, and one for each command.

    python tools/man_pages.py             into man, from where wheels take them to share/man
    python tools/man_pages.py FOLDER      into another folder, such as usr/share/man of a package

A page has all that `--help` has, for a command and all below it. Its date is that of its last change: a page that
says the same as before is left as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import ibi
from ibi.cli import command_parser
from ibi.cli.parser import Parser
from ibi.runtime.i18n import LANGUAGES, say

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "man"
_DATE: Final = re.compile(r'^(\.TH [^ ]+ 1) "[^"]*"', re.MULTILINE)

HEADINGS: Final = {
    "en": {},
    "pt-BR": {
        "NAME": "NOME",
        "SYNOPSIS": "SINOPSE",
        "DESCRIPTION": "DESCRIÇÃO",
        "COMMANDS": "COMANDOS",
        "OPTIONS": "OPÇÕES",
        "ENVIRONMENT": "AMBIENTE",
        "EXIT STATUS": "STATUS DE SAÍDA",
        "SEE ALSO": "VEJA TAMBÉM",
        "Commands of ibi": "Comandos de ibi",
        "the data directory of commands without --data": "o diretório de dados dos comandos sem --data",
        "the resolver of ibi resolve without --resolver": "o resolvedor de ibi resolve sem --resolver",
        "the language of messages and help": "o idioma das mensagens e da ajuda",
        "done": "feito",
        "what was asked for failed; one sentence says why": "o que se pediu falhou; uma frase diz por quê",
        "wrong usage": "uso incorreto",
        "interrupted": "interrompido",
    },
}
VARIABLES: Final = {
    "IBI_DATA": "the data directory of commands without --data",
    "IBI_RESOLVER": "the resolver of ibi resolve without --resolver",
    "LANGUAGE, LC_ALL, LC_MESSAGES, LANG": "the language of messages and help",
}
STATUSES: Final = {
    "0": "done",
    "1": "what was asked for failed; one sentence says why",
    "2": "wrong usage",
    "130": "interrupted",
}


def pages(language: str) -> dict[str, str]:
    """Return each page by its name: "ibi-archive"."""
    os.environ["LANGUAGE"] = language.replace("-", "_")
    whole = command_parser()
    texts = HEADINGS[language]
    commands = whole.subcommands()
    names = ["ibi", *(f"ibi-{word}" for word in commands)]
    found = {"ibi": _page(whole, "ibi", str(say(whole.description or "")), names, texts, deep=False)}
    for word, (parser, text) in commands.items():
        found[f"ibi-{word}"] = _page(parser, f"ibi-{word}", text, names, texts, deep=True)
    return found


def _page(
    parser: Parser, name: str, text: str, names: list[str], texts: dict[str, str], *, deep: bool
) -> str:
    def heading(english: str) -> str:
        return f".SH {texts.get(english, english)}"

    title = texts.get("Commands of ibi", "Commands of ibi")
    lines = [f'.TH {name.upper()} 1 "{_today()}" "ibi {ibi.__version__}" "{title}"', ".nh", ".ad l"]
    lines += [heading("NAME"), f"{_escaped(name)} \\- {_escaped(text.rstrip('.'))}"]
    lines += [heading("SYNOPSIS"), *_usage(parser)]
    lines += [heading("DESCRIPTION"), *_described(parser, text)]
    lines += [heading("OPTIONS"), *_arguments(parser)]
    if parser.subcommands():
        lines.append(heading("COMMANDS"))
        if deep:
            lines += [
                line for child, meaning in parser.subcommands().values() for line in _below(child, meaning)
            ]
        else:
            listed = {f"ibi-{word}(1)": meaning for word, (_, meaning) in parser.subcommands().items()}
            lines += [line for row in listed.items() for line in _row(*row)]
    for english, rows in (("ENVIRONMENT", VARIABLES), ("EXIT STATUS", STATUSES)):
        lines.append(heading(english))
        lines += [line for what, meaning in rows.items() for line in _row(what, texts.get(meaning, meaning))]
    others = ",\n".join(f".BR {_escaped(each)} (1)" for each in names if each != name)
    lines += [heading("SEE ALSO"), *others.splitlines()]
    return "\n".join(lines) + "\n"


def _today() -> str:
    """Return the day on which the pages are made; a build that shall be repeatable gives it."""
    moment = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _below(parser: Parser, text: str) -> Iterator[str]:
    """Yield the lines about a command below the one of the page, and about those below it."""
    yield f".SS {_escaped(parser.prog)}"
    yield _escaped(text)
    if parser.subcommands():
        for child, meaning in parser.subcommands().values():
            yield from _below(child, meaning)
        return
    yield ".PP"
    yield from _usage(parser)
    yield from _arguments(parser)
    yield from _epilog(parser)


def _described(parser: Parser, text: str) -> Iterator[str]:
    yield _escaped(str(say(parser.description)) if parser.description else text)
    yield from _epilog(parser)


def _epilog(parser: Parser) -> Iterator[str]:
    if parser.epilog:
        yield from (".PP", ".nf", *map(_escaped, str(say(parser.epilog)).rstrip("\n").splitlines()), ".fi")


def _usage(parser: Parser) -> Iterator[str]:
    words = " ".join(parser.format_usage().split()).partition(": ")[2]
    yield _escaped(words)


def _arguments(parser: Parser) -> Iterator[str]:
    for action in parser.shown_arguments():
        yield from _row(parser.spelled(action), parser.text_of(action))


def _row(what: str, meaning: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{_escaped(what)}\\fR", _escaped(meaning))


def _escaped(text: str) -> str:
    """Return a line as roff takes it: hyphens that can be copied, and no line that begins as a request does."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def all_pages(folder: Path) -> dict[Path, str]:
    """Return each page by its path below a folder, where `man` looks for it."""
    return {
        folder / ("" if language == "en" else language.replace("-", "_")) / "man1" / f"{name}.1": text
        for language in LANGUAGES
        for name, text in pages(language).items()
    }


def changed(folder: Path) -> dict[Path, str | None]:
    """Return the pages that say something else than their files, None for a file that is no page any more."""
    wanted = all_pages(folder)
    held = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.1")}
    new = {path: text for path, text in wanted.items() if _undated(held.get(path, "")) != _undated(text)}
    return {**new, **dict.fromkeys(held.keys() - wanted.keys())}


def _undated(text: str) -> str:
    return _DATE.sub(r"\1", text)


def main() -> None:
    """Write the manual pages that have changed, and remove those of former commands."""
    arguments = argparse.ArgumentParser(description=main.__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="by default, %(default)s")
    for path, text in changed(arguments.parse_args().folder).items():
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
