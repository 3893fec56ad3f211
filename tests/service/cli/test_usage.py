"""Wrong usage: the usage line of the command that was meant, and one sentence in the reader's language. Status 2."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ibi.cli import main
from surface.commands import leaves

DATA = ["--data", "nowhere"]

WRONG = [
    (["archive", "harvest", *DATA], "the field URL is missing", "falta o campo URL"),
    (["archive", "index"], "the field --data is missing", "falta o campo --data"),
    (["archive", "import", *DATA, "a", "--format", "xml"], "--format is one of: bibtex, csv, jsonl, ris",
     "--format é um destes: bibtex, csv, jsonl, ris"),
    (["archive", "nothing"], "ACTION is one of: ", "ACTION é um destes: "),
    ([], "say which command; they are listed by: ibi --help", "diga qual comando; eles são listados por: ibi --help"),
    (["archive", "account"], "say which command; they are listed by: ibi archive account --help",
     "diga qual comando; eles são listados por: ibi archive account --help"),
    (["nothing"], "COMMAND is one of: inspect, ", "COMMAND é um destes: inspect, "),
    (["archive", "set", *DATA, "--nothing", "x"], "--nothing does not belong here", "--nothing não tem lugar aqui"),
    (["archive", "list", *DATA, "more"], "more does not belong here", "more não tem lugar aqui"),
    (["archive", "serve", *DATA, "--workers", "0"], "--workers is a whole number from 1 to 256",
     "--workers é um número inteiro de 1 a 256"),
    (["archive", "serve", *DATA, "--workers"], "--workers needs a value", "--workers precisa de um valor"),
    (["archive", "serve", *DATA, "--access-log=x"], "--access-log takes no value", "--access-log não aceita valor"),
    (["archive", "token", *DATA], "one of these must be given: add list remove",
     "é preciso informar um destes: add list remove"),
    (["archive", "token", "--list"], "the field --data is missing", "falta o campo --data"),
    (["mint", "token", "add", *DATA], "the field NAME is missing", "falta o campo NAME"),
    (["archive", "token", *DATA, "--list", "--name", "x"], "--name and --list exclude each other",
     "--name e --list excluem-se"),
    (["resolver", "serve", *DATA, "--trusted-proxy", "x"], "--trusted-proxy: x is neither an address nor a network",
     "--trusted-proxy: x não é um endereço nem uma rede"),
    (["archive", "serve", *DATA, "--t", "x"], "--t may be any of: --trusted-proxy, --tls-cert, --tls-key",
     "--t pode ser qualquer um destes: --trusted-proxy, --tls-cert, --tls-key"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "english", "portuguese"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_usage_is_one_sentence_in_the_language_of_the_reader(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    english: str,
    portuguese: str,
) -> None:
    monkeypatch.delenv("IBI_DATA", raising=False)
    for language, usage, sentence in (("en", "usage", english), ("pt_BR", "uso", portuguese)):
        monkeypatch.setenv("LANGUAGE", language)
        with pytest.raises(SystemExit, match="2"):
            main(words)
        printed = capsys.readouterr()
        last = printed.err.splitlines()[-1]
        command = last.partition(": ")[0]
        assert last.removeprefix(f"{command}: ").startswith(sentence), printed.err
        assert printed.err.startswith(f"{usage}: {command} ")
        assert printed.out == ""


@pytest.mark.parametrize("name", sorted(leaves()))
def test_an_unknown_option_is_answered_with_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    monkeypatch.setenv("IBI_DATA", "nowhere")
    words = name.split()[1:]
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--no-such-option"])
    printed = capsys.readouterr().err
    assert printed.startswith(f"usage: {name} "), printed
    assert "argument" not in printed.splitlines()[-1]


def test_an_archive_is_served_without_the_modules_of_all_other_actions() -> None:
    """They would take longer to import than all that the server needs."""
    seen = "import sys; from ibi.cli import main; sys.argv[1:] = ['archive', 'serve', '--help']\n"
    seen += "try: main()\nfinally: print('ibi.cli.archive.items' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"


@pytest.mark.parametrize("action", ["list", "show", "deposit"])
def test_help_of_an_action_needs_no_database_and_no_network(action: str) -> None:
    """Their libraries take longer to import than all else; an action imports them when it runs."""
    seen = f"import sys; from ibi.cli import main; sys.argv[1:] = ['archive', {action!r}, '--help']\n"
    seen += "try: main()\nfinally: print({'sqlalchemy', 'aiohttp'} & {*sys.modules}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"
