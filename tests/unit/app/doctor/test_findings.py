"""What the checks of `ibi doctor` say, word for word, and at which value a verdict changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from ibi.app.doctor import Finding
from ibi.app.doctor.doctor import SECONDS
from ibi.app.doctor.machine import check_disk, judge_flush, judge_free_space, judge_kind
from ibi.app.doctor.reach import check_certificate_file, host_ports, judge_answer, not_reached
from ibi.app.doctor.stores import DirectoryKind, check_policy, check_proxies
from ibi.http.proxy_faults import UndeclaredProxies
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ArchiveSettings, ResolverSettings

NONCE = "0123456789abcdef" * 2
MIB, GIB = 1 << 20, 1 << 30
SPACE = " -> make room on this disk"
LOOK = " -> see that the service of this directory answers there, and no other or older one"
UNKNOWN = "not proven address: it is not proven that a.example leads here: what answers there does not know our nonce"
RENEW = " -> renew the certificate, and see that the service or its proxy has taken the new one"
RESOLVER = ResolverSettings(
    address="urlib.net",
    service=IBIForms.parse("rep resolver.example.org/w/2020/01.01.00.00"),
    admin="a@urlib.net",
)
ARCHIVE = ArchiveSettings(
    address="archive.example.org",
    ip="8.8.8.8",
    service=IBIForms.parse("rep archive.example.org/w/2020/01.01.00.00"),
    key="12345678901234567890",
    secret="00",
    admin="a@archive.example.org",
    trusted_proxies=("10.0.0.0/8",),
)
POLICY = "ok settings: the policy is hardened"


def lines(found: Finding | Iterable[Finding] | None) -> list[str]:
    """Findings as a person reads them."""
    findings = [found] if isinstance(found, Finding) else found or []
    return [
        f"{each.severity} {each.name}: {each.sentence}{f' -> {each.remedy}' if each.remedy else ''}"
        for each in findings
    ]


@pytest.mark.parametrize(
    ("free", "files", "sentence"),
    [
        (GIB, 1000, "ok disk: 1.1 GB are free"),
        (GIB - 1, 1000, f"warning disk: little room is left: 1.1 GB, 1000 files{SPACE}"),
        (GIB, 999, f"warning disk: little room is left: 1.1 GB, 999 files{SPACE}"),
        (10**9, 1, f"warning disk: little room is left: 1.0 GB, 1 files{SPACE}"),
        (10**9 - 1, 1000, f"warning disk: little room is left: 1000 MB, 1000 files{SPACE}"),
        (32 * MIB, 1000, f"warning disk: little room is left: 34 MB, 1000 files{SPACE}"),
        (32 * MIB - 1, 1000, f"fault disk: the disk is full: 34 MB and 1000 files are free{SPACE}"),
        (GIB, 0, f"fault disk: the disk is full: 1.1 GB and 0 files are free{SPACE}"),
    ],
)
def test_free_space(free: int, files: int, sentence: str) -> None:
    assert lines(judge_free_space(free, files)) == [sentence]


SLOW = "labels and imports wait for it: look for what else writes there, or use a faster disk"
MOVE = "move the directory to a disk"
NETWORK = "mint from one machine only, or move the directory to a disk of this machine"


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (0.1, "ok disk: it can be written, and keeps a small file within 100.00 ms"),
        (0.10001, f"warning disk: the disk takes 100.01 ms to keep a small file -> {SLOW}"),
    ],
)
def test_how_fast_a_disk_is(seconds: float, sentence: str) -> None:
    assert lines(judge_flush(seconds)) == [sentence]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("ext4", ""),
        ("nfs4", f"the directory lies on another machine (nfs4), where locks may not hold -> {NETWORK}"),
        (
            "tmpfs",
            f"the directory lies in memory (tmpfs): all of it is gone when the machine stops -> {MOVE}",
        ),
    ],
)
def test_where_a_directory_lies(kind: str, sentence: str) -> None:
    assert lines(judge_kind(kind)) == ([f"warning disk: {sentence}"] if sentence else [])


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert lines(check_disk(gone)) == [f"fault disk: {gone} cannot be looked at: No such file or directory"]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (200, f" {NONCE}\n", "ok address: a.example leads here"),
        (200, NONCE[::-1], f"not proven address: a.example leads to another directory's service{LOOK}"),
        *(
            (status, body, f"{UNKNOWN} ({status}){LOOK}")
            for status, body in ((404, NONCE), (404, NONCE[::-1]), (200, ""))
        ),
    ],
)
def test_what_answers_under_a_name(status: int, body: str, sentence: str) -> None:
    assert lines(judge_answer("a.example", status, body.encode(), NONCE)) == [sentence]


def test_a_name_without_an_answer() -> None:
    start = " -> start the service, then look at the name, the network and the proxies before it"
    assert lines(not_reached("a.example", "silence")) == [
        f"not proven address: it is not proven that a.example leads here: silence{start}"
    ]


def test_hosts_and_a_port() -> None:
    hosts = ("a.example", "", "::1", "10.0.0.1")
    assert host_ports(80, *hosts) == ["a.example", "[::1]", "10.0.0.1"]
    assert host_ports(81, *hosts) == ["a.example:81", "[::1]:81", "10.0.0.1:81"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The file of a certificate, and the POSIX seconds of its end."""
    key, end = ec.generate_private_key(ec.SECP256R1()), dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.example")])
    maker = x509.CertificateBuilder(name, name, key.public_key(), 1, end - dt.timedelta(90), end)
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    path.write_bytes(maker.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return path, end.timestamp()


@pytest.mark.parametrize(
    ("left", "sentence"),
    [
        (14 * 86_400, "ok certificate: the certificate of {path} is valid for 14 more days"),
        (
            14 * 86_400 - 1,
            f"warning certificate: the certificate of {{path}} is valid for 13 more days{RENEW}",
        ),
        (0, f"warning certificate: the certificate of {{path}} is valid for 0 more days{RENEW}"),
        (-1, f"fault certificate: the certificate of {{path}} is not valid any more{RENEW}"),
    ],
)
def test_the_end_of_a_certificate(certificate: tuple[Path, float], left: int, sentence: str) -> None:
    path, end = certificate
    assert lines(check_certificate_file(path, end - left)) == [sentence.format(path=path)]


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    absent = f"fault certificate: {path} cannot be read: No such file or directory"
    assert lines(check_certificate_file(path, 0)) == [absent]
    path.write_bytes(b"")
    assert lines(check_certificate_file(path, 0)) == [
        f"fault certificate: {path} cannot be read: not a certificate"
    ]


def weak(sentence: str, better: str) -> str:
    return f"warning settings: {sentence} -> in resolver.toml: {better}"


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({}, [POLICY]),
        ({"overall_seconds": 15.0, "archive_seconds": 15.0, "request_rate": 1000.0}, [POLICY]),
        (
            {"policy": "strict"},
            [
                weak(
                    "answers are judged by the letter of the standard, without its safeguards",
                    'policy = "hardened"',
                )
            ],
        ),
        (
            {"allow_private_archives": True},
            [
                POLICY,
                weak(
                    "it can be reached from everywhere, and contacts Archives at addresses that are not public",
                    "allow_private_archives = false",
                ),
            ],
        ),
        *(
            (
                {"address": address},
                [
                    POLICY,
                    weak(
                        "its own address is not public, and it contacts no Archive at an address that is not, either",
                        "allow_private_archives = true",
                    ),
                ],
            )
            for address in ("resolver", "resolver.example", "10.0.0.1", "[::1]:8080")
        ),
        ({"address": "8.8.8.8:8080"}, [POLICY]),
        ({"address": "[2001:4860:4860::8888]"}, [POLICY]),
        (
            {"overall_seconds": 15.5},
            [POLICY, weak("readers may wait for 15.5 s", "overall_seconds = 5.0")],
        ),
        (
            {"archive_seconds": 5.5},
            [
                POLICY,
                weak(
                    "one Archive may take longer to answer than a whole resolution", "archive_seconds = 3.0"
                ),
            ],
        ),
        (
            {"request_rate": 1000.5},
            [POLICY, weak("one reader may cause 1000.5 queries to Archives a second", "request_rate = 20.0")],
        ),
        ({"admin": ""}, [POLICY, weak("alerts do not tell readers whom to write to", 'admin = "..."')]),
        (
            {"smtp": "mail.example:25"},
            [POLICY, weak("no mail is sent: no sender is set", 'mail_from = "..."')],
        ),
        ({"smtp": "mail.example:25", "mail_from": "a@urlib.net"}, [POLICY]),
    ],
)
def test_settings_of_a_resolver(tmp_path: Path, changes: dict[str, Any], sentences: list[str]) -> None:
    replace(RESOLVER, **changes).write(tmp_path)
    assert lines(check_policy(tmp_path)) == sentences


@pytest.mark.parametrize(
    ("kind", "proxy", "remedy"),
    [
        (DirectoryKind.ARCHIVE, "192.168.0.1", "ibi archive set --trusted-proxy 192.168.0.1"),
        (DirectoryKind.ARCHIVE, "10.0.0.1", ""),
        (DirectoryKind.RESOLVER, "10.0.0.1", "ibi resolver serve --trusted-proxy 10.0.0.1"),
    ],
)
def test_a_proxy_that_is_not_declared(tmp_path: Path, kind: DirectoryKind, proxy: str, remedy: str) -> None:
    ARCHIVE.write(tmp_path)
    UndeclaredProxies(tmp_path, lambda: 86_399.0).add(proxy)
    sentence = (
        f"{proxy} brings readers (last on 1970-01-01) and is not declared as a proxy: they share one limit"
    )
    assert lines(check_proxies(tmp_path, kind)) == (
        [f"warning settings: {sentence} -> {remedy}"] if remedy else []
    )


def test_all_parts_of_a_checkup_take_no_longer_than_is_promised() -> None:
    assert sum(SECONDS.values()) == 40
