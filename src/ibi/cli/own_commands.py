"""Runs our own commands inside of a command, as an administrator would type them."""

from __future__ import annotations

import contextlib
import io

from ibi.errors import SetupError


def run_quietly(*words: object) -> None:
    """Run a command of an Archive or a resolver. Raises IbiError, with the output of the command if it fails."""
    from ibi.cli import archive, resolver
    from ibi.cli.parser import Parser

    parser = Parser(prog="ibi")
    commands = parser.add_subparsers(required=True)
    archive.add_parser(commands)
    resolver.add_parser(commands)
    args = parser.parse_args([str(word) for word in words])
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = args.run(args)
    if status:
        command = " ".join(("ibi", *map(str, words[:2])))
        raise SetupError("{command} failed: {why}", command=command, why=output.getvalue().strip())
