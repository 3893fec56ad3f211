"""Commands of ours in processes of their own, forked from one that has imported the package.

Most of what a short command takes is imports: half a second, hundreds of times in a run of all tests. A command starts
as usual if a test gives it another Python, other libraries or another encoding, if its coverage is measured, or if the
test is about what it imports or how it is installed.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).parents[3] / "src"
_READ_AT_THE_START = ("PYTHON", "LD_", "TZ", "COVERAGE_", "MALLOC_")
"""How variables begin that Python itself, its libraries or a measurement read when a process starts."""
_OF_LOCALES = ("LANG", "LC_ALL", "LC_CTYPE")
_TAKEN = set("stdin stdout stderr env cwd text encoding errors bufsize start_new_session".split())
"""The options of `subprocess.Popen` that a forked process is given, too."""
_LARGEST = 1 << 20  # bytes of a request: the words and the environment
_PR_SET_CHILD_SUBREAPER = 36


def start_ibi(words: Sequence[object], **options: Any) -> subprocess.Popen[Any]:
    """`ibi WORDS` as `subprocess.Popen` runs it: with the same options, and a child of this process."""
    command = [sys.executable, "-m", "ibi", *map(str, words)]
    environment = options.get("env") or os.environ
    if set(options) - _TAKEN or not _starts_as_we_did(environment):
        return subprocess.Popen(command, **options)
    with Path(os.devnull).open("r+b") as nothing:
        given: dict[str, Any] = {
            name: nothing if value is subprocess.DEVNULL else value for name, value in options.items()
        }
        return _Forked(command, **given)


def run_ibi(*words: object, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` for a command of ours, which keeps what it prints."""
    data = options.pop("input", None)
    streams = {
        "stdin": None if data is None else subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with start_ibi(words, **{**streams, **options}) as process:
        try:
            out, err = process.communicate(data, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class _Forked(subprocess.Popen[Any]):
    # Popen has made the pipes, and calls this to start a program with them.
    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        cwd, env = rest[4:6]
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[9:15]
        files = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        environment = dict(os.environ if env is None else env)
        folder = os.fspath(cwd or Path.cwd())
        self.pid = _SERVER.fork(args[3:], environment, folder, files, session=rest[-2])
        self._child_created = True
        for ours, theirs in ((p2cwrite, p2cread), (c2pread, c2pwrite), (errread, errwrite)):
            if ours != -1:
                os.close(theirs)
        self._closed_child_pipe_fds = True


def _starts_as_we_did(environment: Mapping[str, str]) -> bool:
    """Whether Python would start the same with this environment, and find the same package."""
    ours, theirs = (
        {name: each.get(name) for name in {*environment, *os.environ} if name.startswith(_READ_AT_THE_START)}
        for each in (os.environ, environment)
    )
    ours["PYTHONPATH"] = theirs["PYTHONPATH"] = None
    paths = environment.get("PYTHONPATH", str(_SOURCE)).split(os.pathsep)
    locales = [environment.get(name) or "UTF-8" for name in _OF_LOCALES]
    return (
        ours == theirs
        and "COVERAGE_PROCESS_START" not in environment
        and str(_SOURCE) in map(os.path.abspath, paths)
        and all(each.endswith("UTF-8") for each in locales)
    )


class _Server:
    """The process that forks, started when the first command is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def fork(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        files: Sequence[int],
        session: bool,
    ) -> int:
        """Fork a process that does a command; its number. It is a child of this process."""
        request = json.dumps([words, dict(environment), folder, session]).encode("utf-8", "surrogateescape")
        with self._lock:
            connection = self._connection or self._start()
            # An orphan becomes a child of the next process above it that takes orphans, and that is this one meanwhile.
            _take_orphans(True)
            try:
                socket.send_fds(connection, [request], files)
                answer = connection.recv(64)
                assert answer, "the process that forks has ended"
                assert connection.recv(64) == b"done"
            finally:
                _take_orphans(False)
        return int(answer)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            os.posix_spawn(
                sys.executable,
                [sys.executable, __file__],
                {**os.environ, "PYTHONPATH": str(_SOURCE)},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
            )
        atexit.register(ours.close)  # then the other process ends
        self._connection = ours
        return ours


_SERVER = _Server()


def _take_orphans(yes: bool) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _serve(connection: socket.socket) -> list[str]:
    """Fork a process for each request, until the run of tests ends; in such a process, return its words."""
    while True:
        message, files, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        if not message:
            os._exit(0)
        middle = os.fork()
        if not middle:
            child = os.fork()
            if not child:
                connection.detach()
                return _become(message, files)
            connection.send(str(child).encode())
            os._exit(0)  # so that the child becomes one of the tests' process
        for file in files:
            os.close(file)
        os.waitpid(middle, 0)
        connection.send(b"done")


def _become(message: bytes, files: Sequence[int]) -> list[str]:
    """Be as a process is that was started with this environment and these files; its words."""
    words, environment, folder, session = json.loads(message.decode("utf-8", "surrogateescape"))
    if session:
        os.setsid()
    for place, file in enumerate(files):
        os.dup2(file, place)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    return [str(word) for word in words]


if __name__ == "__main__":
    import gc
    import pkgutil
    from importlib import import_module

    import ibi
    from ibi.cli import main

    for _module in pkgutil.walk_packages(ibi.__path__, "ibi."):
        if not _module.name.endswith("__main__"):
            import_module(_module.name)
    assert threading.active_count() == 1, "a process with threads cannot fork"
    gc.collect()
    gc.freeze()
    sys.argv = ["ibi", *_serve(socket.socket(fileno=0))]
    sys.exit(main())
