"""What runs on Python alone, in processes of their own: without other packages, and without the modules of Unix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
UNIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
# What Python has in `os` and `signal` on Unix only, and our code uses somewhere.
UNIX_NAMES = (
    "os.O_CLOEXEC os.O_DIRECTORY os.O_NOFOLLOW os.O_NONBLOCK os.fchmod os.fork os.getegid os.geteuid os.getuid"
    " os.pread os.pwrite os.sched_getaffinity os.uname signal.SIGCHLD signal.SIGHUP signal.SIGKILL signal.SIGUSR1"
).split()
NEEDS_UNIX = ("archive", "doctor", "init", "mint", "resolver", "up")
OUR_SENTENCE = "ibi: this command runs on Unix only (Linux, macOS, BSD): this Python has no fcntl\n"

Done = subprocess.CompletedProcess[str]


def _run(code: str, *words: str) -> Done:
    """Run code that sees our sources and Python's own library only."""
    return subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{code}",
            *words,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"LANG": "C"},
    )


def _bare(*words: str) -> Done:
    return _run("from ibi.cli import main; sys.exit(main(sys.argv[1:]))", *words)


def _without_unix(*words: str, code: str = "from ibi.cli import main; sys.exit(main(sys.argv[1:]))") -> Done:
    taken = f"sys.modules |= dict.fromkeys({UNIX_MODULES!r})\nimport os, signal\n"
    taken += "".join(f"del {name}\n" for name in UNIX_NAMES)
    return _run(taken + code, *words)


@pytest.mark.parametrize("run", [_bare, _without_unix])
def test_a_name_is_read_by_python_alone(run: object) -> None:
    assert callable(run)
    done: Done = run("inspect", "8JMKD3MGP8W/34PGRBS", "8JMKD3MGP8W/34PGRBS!:")
    assert (done.returncode, done.stderr) == (0, "")
    assert "150.163.34.243" in done.stdout
    assert "relation" in done.stdout
    wrong: Done = run("inspect", "8JMKD3MGP8W/")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("ibi: ")
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize("run", [_bare, _without_unix])
@pytest.mark.parametrize("words", [("--help",), ("--version",), ("inspect", "--help"), ("resolve", "--help"),
                                   ("completion", "bash")])  # fmt: skip
def test_help_version_and_completion_need_python_alone(words: tuple[str, ...], run: object) -> None:
    assert callable(run)
    done: Done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ibi" in done.stdout


def test_the_list_of_commands_says_which_need_more_than_the_library() -> None:
    listed = _bare("--help").stdout.splitlines()
    more = [line.split()[0] for line in listed if "pip install 'ibi[node]'" in line]
    assert more == ["init", "archive", "resolver", "up"]
    assert [line for line in listed if "Unix" in line] == []


def test_the_list_of_commands_says_which_need_unix() -> None:
    listed = _without_unix("--help").stdout.splitlines()
    assert sorted(line.split()[0] for line in listed if "runs on Unix only" in line) == sorted(NEEDS_UNIX)
    assert [line for line in listed if "ibi[node]" in line] == []


@pytest.mark.parametrize(
    "words", [("archive", "serve"), ("resolver", "--help"), ("up",), ("doctor", "--data", "nowhere")]
)
def test_a_command_that_needs_more_says_in_one_sentence_how_to_get_it(words: tuple[str, ...]) -> None:
    done = _bare(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("ibi: this command needs more than the library: pip install 'ibi[node]'")


@pytest.mark.parametrize("words", [("mint", "--help"), ("mint",), ("up",)])
def test_a_command_that_needs_unix_says_so_in_one_sentence(words: tuple[str, ...]) -> None:
    done = _without_unix(*words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", OUR_SENTENCE)


def test_the_library_and_its_client_are_imported_without_unix() -> None:
    code = "import ibi, ibi.client.resolver, ibi.client.archive; print(ibi.parse_ibi('8JMKD3MGP8W/34PGRBS'))"
    done = _without_unix(code=code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8JMKD3MGP8W/34PGRBS\n", "")


def test_a_name_is_read_without_importing_what_only_services_need() -> None:
    """Every run of `ibi inspect` would pay for it."""
    code = "from ibi.cli import main; main(sys.argv[1:]); print(*sys.modules, sep='\\n')"
    imported = set(_run(code, "inspect", "8JMKD3MGP8W/34PGRBS").stdout.split())
    services = {"asyncio", "fcntl", "ibi.http", "ibi.minting", "ibi.runtime.settings", "ssl", "tomllib"}
    assert imported & services == set()
