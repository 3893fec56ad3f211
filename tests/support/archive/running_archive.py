"""An Archive as an operator runs it: `ibi archive serve` in a process of its own, on a real socket."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ibi.app.archive import archive_directory
from support.archive.archive_fixture import settings_for
from support.concurrency.forked import start_ibi
from support.ports import free_port
from support.programs import Program

_MINTS: dict[str, object] = {"mint_host": "archive.example", "for_trying": True}


@contextmanager
def running_archive(data: Path, *words: str, **more: object) -> Iterator[Program]:
    """Serve a new Archive until the end of the block; `words` go to the command, `more` into the settings."""
    address = f"127.0.0.1:{free_port()}"
    directory = archive_directory(data)
    directory.reserve()
    directory.create(settings_for(address, **_MINTS, **more))
    command = ["archive", "serve", "--data", data, "--bind", address, *words]
    with start_ibi(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield Program(data, int(address.rpartition(":")[2]))
        finally:
            process.terminate()
            process.communicate(timeout=20)
