"""`ibi completion`: each script in its own shell, asked as a person asks with the Tab key."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ibi.cli import main
from ibi.cli.parser import Parser
from surface.commands import parsers

# The editor of zsh works on a terminal alone, and shows nothing while more is typed: so what it would show is printed.
_ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
answer() {
  zpty -w -n shell "$1"; local all= part
  while [[ $all != *$2* ]] && zpty -r -m shell part; do all+=$part; done
  print -r -- "$all"
}
answer 'autoload -Uz compinit; compinit -u -D; PS1=; source SCRIPT
compadd() {
  [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || { local -a hits; builtin compadd -A hits "$@"; print -rl -- "" $hits }
  builtin compadd "$@"
}
zle -C ask list-choices _main_complete
tab() { zle ask; print "FINI""SHED" }
zle -N tab; bindkey "^I" tab; print REA""DY
' READY > /dev/null
answer "$LINE"$'\t' FINISHED
"""

LINES = [
    ("ibi arch", {"archive"}, {"resolver"}),
    ("ibi archive imp", {"import", "import-bag"}, {"deposit"}),
    ("ibi archive import --for", {"--format"}, {"--data"}),
    ("ibi archive import --format ", {"bibtex", "csv", "jsonl", "ris"}, {"deposit"}),
    ("ibi archive token ", {"add", "list", "remove"}, {"--name"}),
    ("ibi archive token add --", {"--data", "--scope", "--json", "--quiet", "--help"}, {"--revoke"}),
    ("ibi archive account add --role ", {"depositor", "keeper", "administrator"}, set()),
    ("ibi mint token re", {"remove"}, {"recover"}),
    ("ibi archive switch ", {"on", "off"}, {"import"}),
    ("ibi archive list --data fol", {"folder"}, {"folly.csv"}),
    ("ibi archive import --data folder fol", {"folly.csv"}, set()),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the shell works: a folder and a file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folly.csv").touch()
    return tmp_path


def _script(capsys: pytest.CaptureFixture[str], shell: str, folder: Path) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / "script"
    path.write_text(capsys.readouterr().out)
    return path


def _run(command: list[str], place: Path, line: str) -> str:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "TERM": "xterm",
        "LINE": line,
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=place, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _bash(script: Path, place: Path, line: str) -> str:
    words = 'read -ra COMP_WORDS <<< "$LINE"; [[ $LINE == *" " ]] && COMP_WORDS+=(""); '
    answer = (
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _ibi; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    return _run(["bash", "--norc", "-c", f"set -u; source {script}; {words}{answer}"], place, line)


def _zsh(script: Path, place: Path, line: str) -> str:
    return _run(["zsh", "-f", "-c", _ZSH.replace("SCRIPT", str(script))], place, line)


def _fish(script: Path, place: Path, line: str) -> str:
    listed = _run(["fish", "--no-config", "-c", f"source {script}; complete -C $LINE"], place, line)
    return "\n".join(each.partition("\t")[0] for each in listed.splitlines())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_values_and_paths(
    place: Path, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = _script(capsys, shell, place)
    ask = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    for line, wanted, unwanted in LINES:
        shown = ask(script, place, line)
        found = set(re.findall(r"(?<![\w-])[\w-][\w.-]*", shown.replace(line.rsplit(" ", 1)[0], "")))
        assert wanted <= found, (line, shown)
        assert not unwanted & found, (line, shown)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_command_and_every_option(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    lines = script.splitlines()
    for name, parser in parsers().items():
        about = [line for line in lines if re.search(rf"{re.escape(name)}(?![\w -])", line)]
        assert about, name
        assert isinstance(parser, Parser)
        for action in parser.shown_arguments():
            for option in action.option_strings:
                spelled = rf" -[ls] {option.lstrip('-')}\b" if shell == "fish" else rf"{option}\b"
                assert any(re.search(spelled, line) for line in about), (name, option)


def test_scripts_describe_in_the_language_of_the_reader(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "pt_BR")
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        printed = capsys.readouterr().out
        assert "um documento JSON" in printed
        assert "one JSON document" not in printed


def test_another_shell_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "tcsh"])
    assert "SHELL is one of: bash, zsh, fish" in capsys.readouterr().err
