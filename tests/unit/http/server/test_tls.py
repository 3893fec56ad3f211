"""The certificate of a server is read again when its files were renewed, whole or not at all."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
import trustme

from ibi.http.server.tls import Certificate

AUTHORITY = trustme.CA()


def renewed(folder: Path, *, key: bool = True) -> bytes:
    """Write another certificate, and its key; return it as it is sent."""
    issued = AUTHORITY.issue_cert("a.example")
    for name, content in (("chain", issued.cert_chain_pems[0]), ("key", issued.private_key_pem)):
        if key or name == "chain":
            content.write_to_path(folder / "new")
            (folder / "new").replace(folder / name)
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def served(context: ssl.SSLContext) -> bytes | None:
    """The certificate that a client gets."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(trusting)
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(one, other, server_hostname="a.example")
    server = context.wrap_bio(other, one, server_side=True)
    for side in (client, server, client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert(binary_form=True)


def test_a_renewed_pair_is_used_from_the_next_handshake_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = str(tmp_path / "chain"), str(tmp_path / "key")
    first, context = renewed(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    certificate = Certificate(files, context)

    def looked() -> list[tuple[str, str]]:
        """What is logged by two looks at the files."""
        caplog.clear()
        for _ in range(2):
            certificate.reload()
        return [(each.levelname, each.getMessage()) for each in caplog.records]

    with caplog.at_level(logging.INFO, "ibi.tls"):
        assert looked() == []
        assert served(context) == first
        renewed(tmp_path, key=False)  # half of it: its key is still the one before
        [(level, why)] = looked()
        assert level == "WARNING"
        assert why.startswith(f"the renewed certificate {files[0]} cannot be used: ")
        assert served(context) == first
        second = renewed(tmp_path)
        assert looked() == [("INFO", f"the certificate {files[0]} was read again")]
        assert served(context) == second
        (tmp_path / "key").unlink()
        [(level, why)] = looked()
        assert (level, served(context)) == ("WARNING", second)
        assert (
            why == f"the renewed certificate {files[0]} cannot be used: [Errno 2] No such file or directory"
        )
