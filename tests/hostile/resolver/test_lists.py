"""Lists of Archives under forged signatures, and what a list may not hold (threat T43)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ibi.cli import main
from ibi.runtime.signing import canonical, signer

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = "J8LNKB5R7W/3FUQHC5"
OTHER = "other.example/w/2020/01.01.00.00"
FORGED = "01" + "00" * 63
"""R is the neutral point and S is 0: right for any message where the public key vanishes, too."""

# The eight points of small order, and further spellings of some (RFC 8032, 5.1.3, refuses these; libraries do not).
EIGHT = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
SPELLINGS = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A resolver that takes over a list."""
    words = ["--address", "mirror.example", "--service-ibi", SERVICE]
    assert main(["resolver", "init", "--data", str(tmp_path / "mirror"), *words]) == 0
    return tmp_path / "mirror"


def content_of(key: str, *services: str) -> dict[str, object]:
    archives = [
        {"service_ibi": service, "address": f"a{number}.example", "url_hosts": [], "confirmed": True,
         "since": "2026-11-21T10:00:00Z"}
        for number, service in enumerate(services)
    ]  # fmt: skip
    resolver = {"service": "ibip J8LNKB5R7W/3FUQHCS", "address": "source.example"}
    return {
        "kind": "ibi registry", "version": 1, "resolver": resolver, "issued": "2026-11-21T10:00:00Z",
        "archives": archives, "key": {"type": "Ed25519", "public": key},
    }  # fmt: skip


def importing(mirror: Path, text: bytes, key: str, *more: str) -> int:
    """Import a list as an administrator types it."""
    (mirror / "list.json").write_bytes(text)
    words = ["--data", str(mirror), str(mirror / "list.json"), "--key", key, *more]
    return main(["resolver", "import-registry", *words])


@pytest.mark.parametrize("key", EIGHT + SPELLINGS)
def test_a_key_that_every_forger_can_sign_for_is_none(
    mirror: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Under the neutral point this signature fits every message; under the others every second, fourth or eighth one.
    content = content_of(key, OTHER)
    text = canonical({"registry": content, "signature": FORGED}) + b"\n"
    assert importing(mirror, text, key) == 1
    assert "a key is 64 hexadecimal digits" in capsys.readouterr().err


def test_the_own_service_of_a_mirror_is_left_out_and_a_lost_line_feed_is_no_change(
    mirror: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = signer(mirror)
    content = content_of(source.public, OTHER, SERVICE, SERVICE.lower())
    text = canonical({"registry": content, "signature": source.sign(canonical(content))})
    capsys.readouterr()
    assert importing(mirror, text, source.public, "--json") == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["added"], counts["left_out"]) == (1, 2)
    assert importing(mirror, text + b"\n", source.public) == 0
    for changed in (text + b"\n\n", text + b" ", b" " + text, text[:-1]):
        assert importing(mirror, changed, source.public) == 1
