"""A nonce is published to all while an address is being proved; nothing else in the directory ever is."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.app.archive import archive_service
from ibi.app.resolver import resolver_service
from ibi.cli import main
from ibi.errors import SetupError
from ibi.runtime.nonce import LONGEST_AGE, Nonce
from support.ports import free_port
from support.served import served

NOW = 1_700_000_000.0
OTHER = "0123456789abcdef" * 2


def _none_published(answer: tuple[int, bytes]) -> bool:
    return answer[0] == 404 and answer[1].startswith(b"nobody is proving now")


def test_a_nonce_is_told_while_the_visit_lasts_and_no_longer(tmp_path: Path) -> None:
    nonce = Nonce(tmp_path, lambda: NOW)
    assert _none_published(nonce.answer())
    with nonce.published() as text:
        assert re.fullmatch("[0-9a-f]{32}", text)
        assert nonce.answer() == (200, f"{text}\n".encode())
        assert Nonce(tmp_path, lambda: NOW).answer() == (200, f"{text}\n".encode())
    assert _none_published(nonce.answer())
    assert list(tmp_path.iterdir()) == []


def test_each_visit_has_a_nonce_of_its_own(tmp_path: Path) -> None:
    seen = set()
    for _ in range(3):
        with Nonce(tmp_path, lambda: NOW).published() as text:
            seen.add(text)
    assert len(seen) == 3


def test_an_error_ends_the_visit_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Nonce(tmp_path, lambda: NOW).published():
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_a_nonce_that_cannot_be_removed_is_left_to_its_age(tmp_path: Path) -> None:
    with Nonce(tmp_path, lambda: NOW).published():
        (path,) = tmp_path.iterdir()
        path.unlink()
        path.mkdir()
    assert path.is_dir()


@pytest.mark.parametrize(
    ("age", "published"), [(0, True), (LONGEST_AGE, True), (LONGEST_AGE + 1, False), (-61, False)]
)
def test_a_nonce_that_was_left_behind_is_told_for_a_minute_only(
    tmp_path: Path, age: float, published: bool
) -> None:
    with Nonce(tmp_path, lambda: NOW).published():
        assert (Nonce(tmp_path, lambda: NOW + age).answer()[0] == 200) is published


def test_only_a_nonce_is_ever_told(tmp_path: Path) -> None:
    path, nonce = tmp_path / "nonce", Nonce(tmp_path, time.time)
    for content in (b"", b"a secret", OTHER.upper().encode(), f"{OTHER}0".encode(), f"{OTHER}\n".encode()):
        path.write_bytes(content)
        assert _none_published(nonce.answer()), content
    path.write_text(OTHER)
    assert nonce.answer() == (200, f"{OTHER}\n".encode())
    path.rename(tmp_path / "elsewhere")
    path.symlink_to("elsewhere")
    assert _none_published(nonce.answer())
    path.unlink()
    path.mkdir()
    assert _none_published(nonce.answer())
    path.rmdir()
    os.mkfifo(path)
    assert _none_published(nonce.answer())


def test_a_service_of_another_user_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with Nonce(tmp_path, lambda: NOW).published():
            assert (tmp_path / "nonce").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_a_directory_that_takes_no_nonce_is_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(SetupError, match=r"nonce cannot be written: No such file"),
        Nonce(tmp_path / "absent", lambda: NOW).published(),
    ):
        pass
    (tmp_path / "nonce").mkdir()
    with pytest.raises(SetupError, match="cannot be written"), Nonce(tmp_path, lambda: NOW).published():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["nonce"]


@pytest.mark.proves("AMB-10")
def test_archive_and_resolver_publish_it_under_any_name_and_let_no_cache_keep_it(tmp_path: Path) -> None:
    archive, resolver = tmp_path / "a", tmp_path / "r"
    port = free_port()
    words = f"archive init --data {archive} --address archive.example --ip 127.0.0.1 --service-ibi LK47B6W/362SFKH"
    assert main(words.split()) == 0
    words = f"resolver init --data {resolver} --address resolver.example --service-ibi J8LNKB5R7W/3FUQHC5"
    assert main(words.split()) == 0
    services = (archive_service, archive, port), (resolver_service, resolver, port + 1)
    for make, data, at in services:
        with served(partial(make, data), f"127.0.0.1:{at}"):
            assert _ask(at)[0] == 404
            with Nonce(data, time.time).published() as text:
                for host in ("archive.example", "resolver.example", "a.name.that.labels.spell.example"):
                    assert _ask(at, host=host) == (200, "no-store", f"{text}\n".encode())
                assert _ask(at, "HEAD") == (200, "no-store", b"")
                assert _ask(at, "POST")[0] == 405
            assert _ask(at)[0] == 404


def _ask(port: int, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, str | None, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, "/-/nonce", headers={"Host": host})
        reply = connection.getresponse()
        return reply.status, reply.getheader("cache-control"), reply.read()
    finally:
        connection.close()
