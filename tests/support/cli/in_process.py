"""A command of ours in this process, where nothing about the process matters: most of a process is imports."""

from __future__ import annotations

import os
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from unittest.mock import patch

from ibi.cli import main


def ibi(*words: object) -> CompletedProcess[str]:
    """What came of one command, in English, as `subprocess.run` tells it. `ibi mint` wants real files to write to."""
    typed = [str(word) for word in words]
    with (
        TemporaryFile("w+", encoding="utf-8") as out,
        TemporaryFile("w+", encoding="utf-8") as err,
        patch.dict(os.environ, LANGUAGE="en"),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            status = main(typed)
        except SystemExit as end:  # of argparse
            status = int(end.code or 0)
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
        return CompletedProcess(typed, status, out.read(), err.read())
