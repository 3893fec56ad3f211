"""`ibi archive serve` that is told to stop while a thread of it cannot go on: it ends, and nothing is lost by that."""

from __future__ import annotations

import fcntl
import json
import signal
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.archive.store.data_directory import DataDirectory
from ibi.minting.machine import this_machine
from support.cli.archive_commands import ibi, make_archive, serving, until
from support.ports import free_port

FORM = (
    b'--x\r\nContent-Disposition: form-data; name="item"\r\n\r\n%s\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nbytes\r\n--x--\r\n'
)


@pytest.mark.long
@pytest.mark.proves("ARC-08")
def test_a_deposit_that_waits_for_its_files_to_be_moved_does_not_hold_up_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, data = free_port(), tmp_path / "a"
    make_archive(data, port)
    token = Tokens(data).make("t", "2026-01-01T00:00:00Z", [Scope.DEPOSIT])
    directory = DataDirectory(data, this_machine())

    def deposit() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        head = {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data; boundary=x"}
        with suppress(OSError, HTTPException):  # the server has stopped
            connection.request("POST", "/-/api/items", FORM % json.dumps({"key": "k"}).encode(), head)
            connection.getresponse().read()
        connection.close()

    depositing = threading.Thread(target=deposit)
    with (
        serving("--data", data, "--bind", f"127.0.0.1:{port}") as process,
        directory.catalogue() as catalogue,
    ):
        with (data / "ingest.lock").open("ab") as working, (data / "settle.lock").open("ab") as moving:
            fcntl.flock(working, fcntl.LOCK_SH)  # or it waits before it has begun
            fcntl.flock(moving, fcntl.LOCK_EX)
            depositing.start()
            until(lambda: catalogue.holding_by_key("k") is not None)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        depositing.join()
    with directory.item_store() as item_store:
        held = item_store.catalogue.holding_by_key("k")
        assert held is not None
        with item_store.file_store.open(held.forms, held.files[0]) as file:
            assert file.read() == b"bytes"
    capsys.readouterr()
    ibi("archive", "check", "--data", data)
