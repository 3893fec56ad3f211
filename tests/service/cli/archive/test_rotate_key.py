"""`ibi archive rotate-key` against a resolver of ours, each in its own process or thread, on real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import open_registry
from ibi.archive.membership.joining import Resolvers
from ibi.cli import main
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import Resolver, ibi, make_archive, serving, until
from support.concurrency.threads import waits_for
from support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long


def knows(resolver: Resolver, service: str, key: str) -> bool:
    registry = open_registry(resolver.data)
    try:
        return registry.check_key(parse_ibi(service), key)
    finally:
        registry.close()


@pytest.mark.proves("MSG-21")
def test_an_archive_that_is_served_gets_a_new_key_and_goes_on_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, data, port = Resolver(tmp_path / "r"), tmp_path / "a", free_port()
    service = make_archive(data, port, "--resolver", resolver.url)
    old = ArchiveSettings.read(data).key
    resolver.register(service, old)
    with resolver.running():
        assert main(["archive", "rotate-key", "--data", str(data)]) == 1  # it has never confirmed
        assert capsys.readouterr().err.strip().endswith("403")
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            until(lambda: service in resolver.included)
            capsys.readouterr()
            words = ["archive", "rotate-key", "--data", str(data), "--resolver", resolver.url]
            with monkeypatch.context() as environment:
                environment.setenv("IBI_ARCHIVE_KEY", old)
                assert main(words) == 1
            assert "key is decided by IBI_ARCHIVE_KEY in the environment" in capsys.readouterr().err
            assert knows(resolver, service, old)
            assert waits_for(data, lambda: main(words)) == 0
            new = ArchiveSettings.read(data).key
            printed = capsys.readouterr()
            assert new not in printed.out + printed.err
            assert new != old
            assert knows(resolver, service, new)
            assert not knows(resolver, service, old)
            assert not (data / "nonce").exists()

            def fail(*_: object) -> None:
                raise SetupError("the disk is full")

            with monkeypatch.context() as disk:
                disk.setattr(Resolvers, "write", fail)
                assert main(words) == 1
            assert not knows(resolver, service, new)  # void, and the one after it was lost
            assert main(words) == 0
            new = ArchiveSettings.read(data).key
            assert knows(resolver, service, new)
            ibi("archive", "switch", "--data", data, "off")
            until(lambda: service not in resolver.included)  # said with the new key
        assert main(["archive", "rotate-key", "--data", str(data)]) == 1  # no server shows the proof
    assert ArchiveSettings.read(data).key == new
    assert main(["archive", "rotate-key", "--data", str(data)]) == 1  # no server answers
    assert main(["archive", "rotate-key", "--data", str(data), "--resolver", "http://other.example"]) == 1
    assert ArchiveSettings.read(data).key == new
