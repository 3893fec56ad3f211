"""`ibi doctor` on real directories, with real services running beside it or not."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.app.doctor import Finding, Severity
from ibi.app.doctor.doctor import Checkup, CheckupOptions
from ibi.app.doctor.machine import check_disk, file_system, judge_flush, judge_free_space, judge_kind
from ibi.app.resolver import resolver_service
from ibi.cli.doctor import line
from ibi.minting import Subsystem
from ibi.minting.machine import Machine, this_machine
from ibi.resolver.evidence.log import Evidence
from ibi.runtime.database import open_engine, quick_check
from ibi.runtime.nonce import Nonce
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.machine import FalseMachine
from support.pages.findings import has_entry
from support.ports import free_port
from support.served import served

SERVICE = "archive.example/w/2020/01.01.00.00"
KEY = "12345678901234567890"
KEPT = replace(this_machine(), synchronised=lambda: True)
DAY = 86400 * 10**9
HOUR = DAY // 24

Ibi = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ibi(typed: Ibi) -> Ibi:
    return typed


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def archive(ibi: Ibi, tmp_path: Path, port: int) -> Path:
    """An Archive at a port of this machine, taking part in a network, that mints under a name of its own."""
    data = tmp_path / "archive"
    words = f"--address 127.0.0.1:{port} --ip 127.0.0.1 --service-ibi {SERVICE} --key {KEY} --admin a@archive.example"
    words += (
        f" --mint-host labels.test --mint-port {port} --for-trying --resolver http://127.0.0.1:{port + 1}"
    )
    assert ibi("archive", "init", "--data", data, *words.split())[0] == 0
    return data


@pytest.fixture
def resolver(ibi: Ibi, tmp_path: Path, port: int) -> Path:
    """Its resolver, at the next port; the Archive is registered."""
    data = tmp_path / "resolver"
    words = f"--address 127.0.0.1:{port + 1} --alias resolver.test:{port + 1} --allow-private-archives"
    assert (
        ibi("resolver", "init", "--data", data, *words.split(), "--service-ibi", "J8LNKB5R7W/3FUQHC5")[0] == 0
    )
    assert ibi("resolver", "register", "--data", data, "--archive-service", SERVICE, "--key", KEY)[0] == 0
    return data


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A directory in which one label was given."""
    data = tmp_path / "labels"
    with Subsystem.open(data, host="labels.example", for_trying=True, granularity="0.001") as subsystem:
        subsystem.mint()
    return data


async def every_name_is_here(_host: str, port: int) -> list[tuple[str, int]]:
    return [("127.0.0.1", port)]


def visit(data: Path, machine: Machine = KEPT, **wishes: object) -> list[Finding]:
    """What is found; the page of troubleshooting must have an entry for each finding that is not ok."""
    found = Checkup(data, machine, CheckupOptions(**wishes), every_name_is_here).findings()  # type: ignore[arg-type]  # by name
    assert all(map(line, found))  # it has words for each thing that was checked
    unexplained = [str(each.sentence) for each in found if not is_explained(each)]
    assert unexplained == []
    return found


def is_explained(finding: Finding) -> bool:
    if finding.severity is Severity.FAULT and finding.name == "settings":
        return True  # one entry for all of them
    return finding.severity is Severity.OK or has_entry(str(finding.sentence))


def of(name: str, findings: list[Finding]) -> list[tuple[str, str]]:
    """What was found about one thing: verdicts and sentences."""
    return [(each.severity.value, str(each.sentence)) for each in findings if each.name == name]


def only(name: str, findings: list[Finding], verdict: str) -> str:
    """The sentence of the one finding about a thing, which has this verdict."""
    [(found, sentence)] = of(name, findings)
    assert found == verdict, sentence
    return sentence


def faults(findings: list[Finding]) -> list[str]:
    return [f"{each.name}: {each.sentence}" for each in findings if each.severity is Severity.FAULT]


# ---- names and addresses


@pytest.mark.proves("AMB-10", "REG-09")
def test_a_running_network_is_proven_from_both_sides(archive: Path, resolver: Path, port: int) -> None:
    with (
        served(lambda: resolver_service(resolver), f"127.0.0.1:{port + 1}"),
        served(lambda: archive_service(archive), f"127.0.0.1:{port}"),
    ):
        seen = visit(archive)
        assert of("address", seen) == [
            ("ok", f"127.0.0.1:{port} leads here"),
            ("ok", f"labels.test:{port} leads here"),
        ]
        # Beside it stands how the Archive was received there, as soon as it has asked.
        reached = f"the resolver http://127.0.0.1:{port + 1} answers within "
        found = of("resolver", seen)
        assert [verdict for verdict, sentence in found if sentence.startswith(reached)] == ["ok"]
        for _ in range(200):
            if not only("archive", seen := visit(resolver), "ok").endswith("switched off"):
                break
            time.sleep(0.05)
        assert only("archive", seen, "ok").startswith(f"{SERVICE} at 127.0.0.1:{port} answers within ")
        assert [verdict for verdict, _ in of("address", seen)] == ["ok", "ok"]
        assert faults(seen) == []
    assert not (archive / "nonce").exists()


def test_nothing_is_proven_while_no_service_runs(archive: Path, resolver: Path) -> None:
    seen = visit(archive)
    for verdict, sentence in of("address", seen):
        assert verdict == "not proven"
        assert "leads here: " in sentence
        assert "cannot be reached" in sentence
    assert "does not answer" in only("resolver", seen, "warning")
    assert faults(seen) == []
    assert {verdict for verdict, _ in of("address", visit(resolver))} == {"not proven"}


@pytest.mark.proves("AMB-10")
def test_a_name_that_leads_to_the_service_of_another_directory_is_not_proven(
    archive: Path, labels: Path, port: int
) -> None:
    with served(lambda: archive_service(archive), f"127.0.0.1:{port}"):
        quiet = only("address", visit(labels, host="labels.test", port=port), "not proven")
        assert quiet.endswith("what answers there does not know our nonce (404)")
        with Nonce(archive, time.time).published():
            other = only("address", visit(labels, host="labels.test", port=port), "not proven")
        assert other == f"labels.test:{port} leads to another directory's service"


def test_the_address_of_files_leads_here_and_to_nothing_else(archive: Path, port: int) -> None:
    files = f"files.test:{port}"
    replace(ArchiveSettings.read(archive), files_address=files).write(archive)
    with served(lambda: archive_service(archive), f"127.0.0.1:{port}"):
        seen = visit(archive)
        assert ("ok", f"{files} leads here") in of("address", seen)
        assert only("files", seen, "ok") == f"the files of items have an address of their own, {files}"
    assert of("files", visit(archive)) == []


def test_a_proxy_that_hides_the_host_from_the_address_of_files_is_a_fault(archive: Path, port: int) -> None:
    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            onward = HTTPConnection("127.0.0.1", port)
            onward.request("GET", self.path)  # under the Archive's own name
            reply = onward.getresponse()
            self.send_response(reply.status)
            self.end_headers()
            self.wfile.write(reply.read())
            onward.close()

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy,
        served(lambda: archive_service(archive), f"127.0.0.1:{port}"),
    ):
        Thread(target=proxy.serve_forever).start()
        files = f"files.test:{proxy.server_port}"
        replace(ArchiveSettings.read(archive), files_address=files).write(archive)
        sentence = only("files", visit(archive), "fault")
        proxy.shutdown()
    assert sentence == (
        f"at {files}, which is to serve nothing but files, the Archive answers under its other name"
    )


@pytest.mark.proves("AMB-10")
def test_a_name_of_the_world_is_not_proven_by_this_machine_s_own_word(archive: Path, port: int) -> None:
    with served(lambda: archive_service(archive), f"127.0.0.1:{port}"):
        seen = visit(archive, host="archive.example.org", port=port, ip="127.0.0.1")
    assert of("address", seen)[:2] == [
        (
            "not proven",
            f"archive.example.org:{port} leads here for this machine alone, which finds the name at 127.0.0.1",
        ),
        ("ok", f"127.0.0.1:{port} leads here"),
    ]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("a b", "not a host"),
        ("é.example", "ASCII"),
        ("nowhere.invalid", "has no address"),
        ("0.0.0.1", "reserved"),
    ],
)
def test_a_name_that_can_be_none_is_not_proven(ibi: Ibi, labels: Path, host: str, why: str) -> None:
    status, out, _ = ibi("doctor", "--data", labels, "--host", host)
    assert status == 0
    [line] = [line for line in out.splitlines() if " address " in line]
    assert line.startswith("not proven ")
    assert why in line


@pytest.mark.long
def test_a_service_that_accepts_and_says_nothing_is_given_up_after_three_seconds(
    labels: Path, port: int
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", port)):
        seen = visit(labels, host="labels.test", port=port)
    assert only("address", seen, "not proven").endswith("no whole answer within 3 s")


def test_without_a_name_a_directory_of_labels_says_what_to_give(labels: Path) -> None:
    [finding] = [each for each in visit(labels) if each.name == "address"]
    assert finding.severity is Severity.NOT_PROVEN
    assert str(finding.remedy) == "give them: --host HOST --ip IP"


# ---- peers


@pytest.fixture
def stranger(port: int) -> Iterator[None]:
    """Something that answers everything with a page, at the Archive's and at the resolver's port."""

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", "4")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(b"here")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    servers = [ThreadingHTTPServer(("127.0.0.1", port + more), Page) for more in (0, 1)]
    threads = [Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    yield
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.usefixtures("stranger")
def test_peers_with_another_identity_are_told_from_peers_that_answer(
    archive: Path, resolver: Path, port: int
) -> None:
    seen = visit(archive)
    assert only("resolver", seen, "warning").endswith("does not tell the IBI of a resolver's service (200)")
    assert {verdict for verdict, _ in of("address", seen)} == {"not proven"}
    _include(resolver, f"127.0.0.1:{port}")
    assert only("archive", visit(resolver), "warning").endswith(
        "what answers there is not this Archive (200)"
    )


def test_an_archive_that_is_silent_is_named_with_its_administrator(resolver: Path, port: int) -> None:
    _include(resolver, f"127.0.0.1:{port}")
    [finding] = [each for each in visit(resolver) if each.name == "archive"]
    assert finding.severity is Severity.WARNING
    assert "a@archive.example" in str(finding.remedy)


@pytest.mark.usefixtures("stranger")
def test_an_archive_is_asked_only_where_the_resolver_would_ask(resolver: Path, port: int) -> None:
    """The holder of a key names an address: the doctor must not be the way to the machines inside (threat T01)."""
    _include(resolver, f"127.0.0.1:{port}")
    settings = resolver / "resolver.toml"
    settings.write_text(settings.read_text().replace("archives = true", "archives = false"))
    assert "must not be contacted" in only("archive", visit(resolver), "warning")


def _include(resolver: Path, address: str) -> None:
    with sqlite3.connect(resolver / "registry.sqlite") as connection:
        connection.execute(
            "UPDATE archives SET included = 1, address = ?, admin_mail = 'a@archive.example'", (address,)
        )
    connection.close()


# ---- an Archive that came back


@pytest.mark.parametrize("count", [1, 2])
def test_a_restored_archive_is_said_to_have_originals_that_are_not_settled(
    ibi: Ibi, archive: Path, tmp_path: Path, count: int
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello")
    for _ in range(count):
        assert ibi("archive", "deposit", "--data", archive, file, "--title", "An item")[0] == 0
    assert ibi("archive", "backup", "--data", archive, "--to", tmp_path / "backups")[0] == 0
    assert "not settled" not in ibi("doctor", "--data", archive)[1]
    shutil.rmtree(archive)
    assert ibi("archive", "restore", "--data", archive, "--from", tmp_path / "backups")[0] == 0
    printed = ibi("doctor", "--data", archive)[1]
    [line] = [line for line in printed.splitlines() if "not settled" in line]
    assert line.startswith("warning     Archive ")
    assert line.endswith(
        f"answers leave out originals that came back from a backup and are not settled: {count}"
        f" -> settle them: ibi archive settle --data {archive}"
    )
    settled = ibi("archive", "settle", "--data", archive, "--all")[1]
    assert settled == f"settled: {count}; moved: 0; removed: 0; not settled: 0\n"
    assert "not settled" not in ibi("doctor", "--data", archive)[1]


# ---- the certificate


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[int], tuple[str, str]]:
    """Makes a certificate of 127.0.0.1 that is valid for so many days: its file, and that of its key."""

    def make(days: int) -> tuple[str, str]:
        cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        words = f"req -x509 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -days {days} -nodes -newkey ec"
        more = f"-pkeyopt ec_paramgen_curve:P-256 -keyout {key} -out {cert}"
        subprocess.run(["openssl", *words.split(), *more.split()], check=True, capture_output=True)
        return str(cert), str(key)

    return make


@pytest.mark.parametrize(("days", "verdict"), [(90, "ok"), (10, "warning")])
def test_a_certificate_tells_how_long_it_is_valid_and_the_url_is_proven(
    resolver: Path,
    port: int,
    certificate: Callable[[int], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    verdict: str,
) -> None:
    tls = certificate(days)
    monkeypatch.setenv("SSL_CERT_FILE", tls[0])
    with served(lambda: resolver_service(resolver, tls=tls), f"127.0.0.1:{port + 1}"):
        seen = visit(resolver, url=f"https://127.0.0.1:{port + 1}/")
    sentence = only("certificate", seen, verdict)
    assert sentence.startswith(f"the certificate of 127.0.0.1 is valid for {days - 1} more days")
    assert of("address", seen)[-1] == ("ok", f"127.0.0.1:{port + 1} leads here")


def test_a_certificate_that_is_not_trusted_is_a_fault(
    resolver: Path, port: int, certificate: Callable[[int], tuple[str, str]]
) -> None:
    tls = certificate(90)
    with served(lambda: resolver_service(resolver, tls=tls), f"127.0.0.1:{port + 1}"):
        seen = visit(resolver, url=f"https://127.0.0.1:{port + 1}")
    assert "is not accepted: self" in only("certificate", seen, "fault")


@pytest.mark.parametrize(("days", "verdict"), [(90, "ok"), (10, "warning"), (-3, "fault")])
def test_the_file_of_a_certificate_tells_how_long_it_is_valid(
    ibi: Ibi, labels: Path, certificate: Callable[[int], tuple[str, str]], days: int, verdict: str
) -> None:
    path = Path(certificate(abs(days))[0])
    later = replace(KEPT, now=lambda: time.time_ns() + (6 * DAY if days < 0 else 0))
    assert str(path) in only("certificate", visit(labels, later, certificate=path), verdict)
    assert f"{verdict:<11} certificate " in ibi("doctor", "--data", labels, "--tls-cert", path)[1] or days < 0


@pytest.mark.parametrize(
    "content", [None, b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_a_fault(labels: Path, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "no.pem"
    if content is not None:
        path.write_bytes(content)
    assert f"{path} cannot be read: " in only("certificate", visit(labels, certificate=path), "fault")


# ---- a resolver's own affairs


def test_the_evidence_is_looked_through(resolver: Path) -> None:
    path = resolver / "evidence.jsonl"
    path.unlink(missing_ok=True)
    path.with_suffix(".head").unlink(missing_ok=True)
    assert only("evidence", visit(resolver), "ok") == f"nothing was written into {path} yet"
    evidence = Evidence(path, time.time)
    for name in ("a", "b", "c"):
        evidence.write("excluded", ibi=name)
    evidence.close()
    assert only("evidence", visit(resolver), "ok") == f"{path} has 3 entries, all as they were written"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert "some are missing" in only("evidence", visit(resolver), "fault")


def test_settings_that_are_allowed_and_weak_are_warnings(resolver: Path) -> None:
    good = replace(ResolverSettings.read(resolver), admin="a@resolver.test")
    good.write(resolver)
    assert {verdict for verdict, _ in of("settings", visit(resolver))} == {"ok"}
    weak: list[dict[str, Any]] = [
        {"policy": "strict"},
        {"address": "urlib.net"},
        {"allow_private_archives": False},
        {"overall_seconds": 20.0},
        {"archive_seconds": 6.0},
        {"request_rate": 5e3},
        {"admin": ""},
        {"smtp": "127.0.0.1:25"},
    ]
    for settings in weak:
        replace(good, **settings).write(resolver)
        [warning] = [
            each for each in visit(resolver) if each.name == "settings" and each.severity is not Severity.OK
        ]
        assert warning.severity is Severity.WARNING
        assert str(warning.remedy).startswith("in resolver.toml: ")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("archive_seconds = -3.0", "archive_seconds is a number from 0.1 to 60"),
        ("archive_seconds = nan", "archive_seconds is a number from 0.1 to 60"),
        ('admin = "nao é email"', "this is not a plain mail address: nao é email"),
    ],
)
def test_what_stands_in_the_file_is_judged_as_what_is_set(
    ibi: Ibi, resolver: Path, line: str, sentence: str
) -> None:
    path = resolver / ResolverSettings.FILE
    name = line.partition(" ")[0]
    lines = [each for each in path.read_text().splitlines() if not each.startswith(f"{name} ")]
    path.write_text("\n".join([line, *lines]))
    assert only("settings", visit(resolver), "fault") == f"{path}: {sentence}"
    status, out, err = ibi("resolver", "serve", "--data", resolver, "--bind", "127.0.0.1:0")
    assert (status, out, err) == (1, "", f"ibi: {path}: {sentence}\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("page_rate = -3.0", "page_rate is a number from 0 to 100000"),
        ('admin = "nao é email"', "the address of the administrator is a mail address: nao é email"),
    ],
)
def test_what_stands_in_the_file_of_an_archive_is_judged_too(
    ibi: Ibi, archive: Path, line: str, sentence: str
) -> None:
    path = archive / ArchiveSettings.FILE
    name = line.partition(" ")[0]
    lines = [each for each in path.read_text().splitlines() if not each.startswith(f"{name} ")]
    path.write_text("\n".join([line, *lines]))
    assert only("settings", visit(archive), "fault") == f"{path}: {sentence}"
    status, out, err = ibi("archive", "serve", "--data", archive, "--bind", "127.0.0.1:0")
    assert (status, out, err) == (1, "", f"ibi: {path}: {sentence}\n")


def test_an_https_url_without_an_answer_is_not_proven(ibi: Ibi, labels: Path, port: int) -> None:
    for url in (f"https://127.0.0.1:{port}", "https://a..b/"):
        status, out, _ = ibi("doctor", "--data", labels, "--url", url)
        assert status == 0
        assert f"not proven  address        it is not proven that {url} leads here" in out


@pytest.mark.parametrize(
    "url", ["http://urlib.net/", "https://", "https://a@b/", "https://a/b", "https://[", "x"]
)
def test_a_url_that_is_no_https_root_is_one_sentence(ibi: Ibi, labels: Path, url: str) -> None:
    status, out, err = ibi("doctor", "--data", labels, "--url", url)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "--url" in err


# ---- the clock and the state of minting


@pytest.mark.parametrize(("kept", "verdict"), [(True, "ok"), (False, "warning"), (None, "not proven")])
def test_a_clock_is_as_good_as_who_keeps_it(labels: Path, kept: bool | None, verdict: str) -> None:
    assert only("clock", visit(labels, replace(KEPT, synchronised=lambda: kept)), verdict)


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize(
    ("off", "sentence"),
    [
        (-3600 * 10**9, " seconds behind the moment of the last label"),
        (3 * DAY + HOUR, "3 days ahead of what"),
    ],
)
def test_a_clock_that_minting_would_not_believe_is_a_fault(labels: Path, off: int, sentence: str) -> None:
    seen = visit(labels, replace(KEPT, now=lambda: time.time_ns() + off))
    assert [line for line in faults(seen) if sentence in line] == faults(seen) != []


def test_a_clock_that_was_never_set_is_a_fault_where_no_label_was_given_too(resolver: Path) -> None:
    [fault] = faults(visit(resolver, FalseMachine(at=0).machine))
    assert fault == "clock: the clock of this machine says 1970-01-01T00:00:00Z: it has not been set"


@pytest.mark.proves("AMB-18")
def test_a_state_that_is_not_to_be_trusted_is_a_fault_with_the_way_to_repair_it(
    labels: Path, archive: Path, tmp_path: Path
) -> None:
    assert only("minting", visit(labels), "ok").startswith("labels given: 1; the last carries 20")
    shutil.copytree(labels, tmp_path / "copy")
    [copied] = [each for each in visit(tmp_path / "copy") if each.name == "minting"]
    assert copied.severity is Severity.FAULT
    assert "is a copy" in str(copied.sentence)
    assert str(copied.remedy).endswith(f"ibi mint recover --data {tmp_path / 'copy'} --moved")
    (labels / "minting" / "state").unlink()
    assert "is missing" in only("minting", visit(labels), "fault")
    assert only("minting", visit(archive), "ok") == "no label has been given here yet"
    shutil.rmtree(archive / "minting")
    assert "is missing" in only("minting", visit(archive), "fault")
    assert not (archive / "minting").exists()


def test_a_visit_changes_nothing(archive: Path, resolver: Path, labels: Path) -> None:
    for data in (archive, resolver, labels):
        before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
        visit(data)
        assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_a_process_that_holds_the_lock_delays_one_check_only(labels: Path) -> None:
    handle = os.open(labels / "minting" / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        seen = visit(labels)
    finally:
        os.close(handle)
    assert only("minting", seen, "not proven") == "nothing could be found out within 3 s"
    assert only("address", seen, "not proven")


# ---- several subsystems in one directory


@pytest.fixture
def several(tmp_path: Path, port: int) -> Path:
    """A directory that lists two subsystems, of which the first has given a label."""
    data = tmp_path / "several"
    data.mkdir()
    tables = f'[first]\nhost = "one.test"\nport = {port}\nip = "127.0.0.1"\nfor_trying = true\n'
    (data / "subsystems.toml").write_text(f'{tables}[second]\nhost = "two.test"\nfor_trying = true\n')
    with Subsystem.open(data / "first", host="one.test", port=port, for_trying=True) as first:
        first.mint()
    return data


@pytest.mark.proves("AMB-10", "AMB-18")
def test_every_listed_subsystem_is_looked_at_under_its_own_name(several: Path, port: int) -> None:
    seen = visit(several)
    assert only("settings", seen, "ok") == f"{several / 'subsystems.toml'} is in order"
    [first] = of("minting", seen)
    assert first[1].startswith("first: labels given: 1; the last carries 20")
    addresses = [f"one.test:{port} ", f"127.0.0.1:{port} ", "two.test "]
    for name, (verdict, sentence) in zip(addresses, of("address", seen), strict=True):
        assert verdict == "not proven"
        assert name in sentence
    (several / "first/minting/state").write_bytes(b"x")
    [fault] = [each for each in visit(several) if each.severity is Severity.FAULT]
    assert str(fault.sentence).startswith(f"first: the minting state in {several / 'first'}")
    assert f"ibi mint recover --data {several / 'first'}" in str(fault.remedy)


@pytest.mark.parametrize(
    "table", ["[first]\n", "x", '[first]\nhost = "a.test"\n', '[../first]\nhost = "a.your.domain"\n']
)
def test_a_list_that_nothing_can_be_minted_by_is_a_fault(several: Path, table: str) -> None:
    (several / "subsystems.toml").write_text(table)
    seen = visit(several)
    assert str(several / "subsystems.toml") in only("settings", seen, "fault")
    assert len(faults(seen)) == 1


@pytest.mark.long
def test_a_lock_that_is_held_hides_no_fault_of_another_subsystem(several: Path) -> None:
    with Subsystem.open(several / "second", host="two.test", for_trying=True) as second:
        second.mint()
    (several / "second/minting/state").write_bytes(b"x")
    handle = os.open(several / "first/minting/lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        seen = of("minting", visit(several))
    finally:
        os.close(handle)
    assert [verdict for verdict, _ in seen] == ["not proven", "fault"]
    assert seen[0][1] == "first: nothing could be found out within 3 s"


# ---- the disk


def test_a_disk_that_takes_nothing_is_a_fault(archive: Path) -> None:
    """Real writes fail, as on a full or read-only disk; the checks that need none go on."""
    command = [sys.executable, "-m", "ibi", "doctor", "--data", str(archive), "--json"]
    run = subprocess.run(
        command,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        env={
            "PYTHONPATH": str(Path(__file__).parents[4] / "src"),
            "LANGUAGE": "en",
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    found = {(each["name"], each["verdict"]): each["sentence"] for each in json.loads(run.stdout)["findings"]}
    assert found["disk", "fault"].startswith(f"nothing can be written in {archive}: File too large")
    assert "nonce cannot be written" in found["address", "not proven"]
    assert ("settings", "ok") in found
    assert "Traceback" not in run.stderr
    assert not list(archive.glob("checkup*"))


@pytest.mark.parametrize(
    ("free", "files", "verdict"),
    [
        (50 * 10**9, 10**6, Severity.OK),
        (500 * 10**6, 10**6, Severity.WARNING),
        (50 * 10**9, 10, Severity.WARNING),
        (10**6, 10**6, Severity.FAULT),
        (50 * 10**9, 0, Severity.FAULT),
    ],
)
def test_free_space_is_judged_in_bytes_and_in_files(free: int, files: int, verdict: Severity) -> None:
    assert judge_free_space(free, files).severity is verdict


def test_a_slow_disk_is_a_warning() -> None:
    assert judge_flush(0.002).severity is Severity.OK
    assert str(judge_flush(0.25).sentence) == "the disk takes 250.00 ms to keep a small file"
    assert judge_flush(0.25).severity is Severity.WARNING


@pytest.mark.parametrize(
    ("kind", "warns"),
    [("ext4", False), ("nfs4", True), ("fuse.sshfs", True), ("tmpfs", True), ("nfsd", False)],
)
def test_a_disk_on_another_machine_or_in_memory_is_a_warning(kind: str, warns: bool) -> None:
    assert (judge_kind(kind) is not None) is warns


def test_the_kind_of_a_disk_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    place = str(tmp_path.resolve() / "a b").replace(" ", r"\040")
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        f"2 1 0:40 / {place} rw,relatime shared:1 - xfs /dev/b rw\n"
        f"3 2 0:41 / {place} rw - nfs4 far:/x rw\n"
        "nonsense\n"
    )
    assert file_system(tmp_path / "a b" / "c", mounts) == "nfs4"
    assert file_system(tmp_path / "a", mounts) == "ext4"
    assert file_system(tmp_path, "") == ""


def test_a_directory_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    [finding] = check_disk(tmp_path / "gone")
    assert finding.severity is Severity.FAULT


# ---- settings and databases


def test_a_damaged_database_is_a_fault(archive: Path) -> None:
    path = archive / "catalogue.sqlite"
    whole = path.read_bytes()
    assert only("database", visit(archive), "ok")
    path.write_bytes(whole[:8192] + b"\xa5" * 4096 + whole[12288:])
    assert f"{path} is damaged: " in only("database", visit(archive), "fault")
    path.write_bytes(b"nothing of a database" * 1000)
    assert "file is not a database" in only("database", visit(archive), "fault")
    path.unlink()
    assert only("database", visit(archive), "fault") == f"{path} does not exist"


def test_a_registry_without_a_table_is_a_fault_and_is_not_served(ibi: Ibi, resolver: Path) -> None:
    path = resolver / "registry.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    path.write_bytes(path.read_bytes().replace(b"archives", b"brchives"))
    seen = visit(resolver)
    sentence = f"{path} is damaged: its table archives is missing; put back a backup"
    assert only("database", seen, "fault") == sentence
    assert of("archive", seen) == []
    status, out, err = ibi("resolver", "serve", "--data", resolver, "--bind", "127.0.0.1:0")
    assert (status, out, err) == (1, "", f"ibi: {sentence}\n")


def test_a_registry_that_is_missing_is_not_kept_aside_nor_taken_for_an_empty_one(resolver: Path) -> None:
    path = resolver / "registry.sqlite"
    path.unlink()
    seen = visit(resolver)
    assert only("database", seen, "fault") == f"{path} does not exist"
    [remedy] = [each.remedy for each in seen if each.name == "database"]
    assert str(remedy) == "stop the service, and put back a backup"
    assert of("archive", seen) == []


def test_a_catalogue_without_a_table_is_a_fault(archive: Path) -> None:
    path = archive / "catalogue.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE visit_mark")
    connection.close()
    assert "its table visit_mark is missing" in only("database", visit(archive), "fault")


@pytest.mark.parametrize("name", ["accounts.json", "tokens.json", "minting/tokens.json"])
def test_a_damaged_list_of_accounts_or_tokens_is_a_fault(archive: Path, resolver: Path, name: str) -> None:
    for data in (archive, resolver):
        path = data / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(range(256)))
        path.chmod(0o600)
        found = [each for each in visit(data) if str(path) in str(each.sentence)]
        assert [(each.severity, str(each.sentence)) for each in found] == [
            (
                Severity.FAULT,
                f"{path} is damaged: put it back from a backup, or remove it and make anew what it held",
            )
        ]
        path.write_text(f'{{"version": 1, "{path.stem}": []}}')
        assert ("ok", f"{path} is in order") in of("settings", visit(data))


def test_a_database_of_another_version_is_a_fault(resolver: Path) -> None:
    with sqlite3.connect(resolver / "registry.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    assert "has version 9999" in only("database", visit(resolver), "fault")


def test_a_large_database_is_looked_through_for_so_long_only(tmp_path: Path) -> None:
    path = tmp_path / "large.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a TEXT UNIQUE)")
        connection.executemany("INSERT INTO t VALUES (?)", ((f"{n:0100}",) for n in range(20_000)))
    connection.close()
    engine = open_engine(path)
    with pytest.raises(TimeoutError):
        quick_check(engine, 0)
    assert quick_check(engine, 60) == []
    engine.dispose()


def test_what_cannot_be_read_is_a_fault_and_ends_no_other_check(ibi: Ibi, archive: Path) -> None:
    (archive / "minting" / "lock").unlink(missing_ok=True)
    (archive / "minting" / "lock").symlink_to("x" * 300)  # no user, not even root, can follow it
    status, out, _ = ibi("doctor", "--data", archive, "--json")
    found = json.loads(out)["findings"]
    assert status == 1
    faults = [each["sentence"] for each in found if each["verdict"] == "fault"]
    assert f"{archive}/minting/lock cannot be read: File name too long" in faults
    assert {"disk", "database", "address"} <= {each["name"] for each in found}


def test_settings_that_others_may_read_are_a_warning_and_broken_ones_a_fault(archive: Path) -> None:
    path = archive / ArchiveSettings.FILE
    assert only("settings", visit(archive), "ok")
    path.chmod(0o644)
    assert only("settings", visit(archive), "warning").endswith("holds secrets, and others may read it")
    path.write_text("address = ")
    seen = visit(archive)
    assert "cannot be read" in only("settings", seen, "fault")
    assert only("database", seen, "ok")


def test_the_password_of_a_mail_server_is_looked_at_as_other_secrets_are(
    resolver: Path, tmp_path: Path
) -> None:
    path = tmp_path / "smtp-password"
    settings = ResolverSettings.read(resolver)
    replace(settings, smtp="smtps://user@mail.example", smtp_password_file=str(path)).write(resolver)
    assert ("fault", f"{path} cannot be read: No such file or directory") in of("settings", visit(resolver))
    path.write_bytes(b"secret\xff")
    path.chmod(0o640)
    sentence = f"{path} holds secrets, and others may read it"
    (found,) = (each for each in visit(resolver) if str(each.sentence) == sentence)
    assert (found.name, found.severity) == ("settings", Severity.WARNING)
    assert found.fix is None  # it is not in the data directory
    path.chmod(0o600)
    assert ("ok", f"{path} is in order") in of("settings", visit(resolver))


# ---- the command


def test_each_kind_of_directory_gets_the_checks_that_apply(
    ibi: Ibi, archive: Path, resolver: Path, labels: Path
) -> None:
    expected = {
        archive: {"settings", "clock", "disk", "minting", "database", "address", "resolver"},
        resolver: {"settings", "clock", "disk", "database", "evidence", "address", "archive"},
        labels: {"clock", "disk", "minting", "address"},
    }
    for data, names in expected.items():
        status, out, err = ibi("doctor", "--data", data, "--json")
        document = json.loads(out)
        assert (status, err, document["faults"]) == (0, "", 0)
        assert {each["name"] for each in document["findings"]} == names
        assert document["kinds"] == [data.name if data is not labels else "minting"] + (
            ["minting"] if data is archive else []
        )


def test_it_prints_one_line_a_finding_and_a_fault_makes_the_status_1(ibi: Ibi, labels: Path) -> None:
    status, out, err = ibi("doctor", "--data", labels)
    lines = out.splitlines()
    assert (status, err, len(lines)) == (
        0,
        "",
        len(json.loads(ibi("doctor", "--data", labels, "--json")[1])["findings"]),
    )
    assert lines[-1] == (
        "not proven  address        which names and addresses should lead here is not known"
        " -> give them: --host HOST --ip IP"
    )
    (labels / "minting" / "state").write_bytes(b"x")
    status, out, err = ibi("doctor", "--data", labels)
    assert (status, err) == (1, "faults found: 1\n")
    [line] = [line for line in out.splitlines() if line.startswith("fault ")]
    assert "is damaged" in line
    assert f"ibi mint recover --data {labels}" in line


@pytest.mark.parametrize("make", [False, True])
def test_a_directory_that_is_none_of_ours_is_one_sentence_and_stays_as_it_is(
    ibi: Ibi, tmp_path: Path, make: bool
) -> None:
    data = tmp_path / "other"
    if make:
        data.mkdir()
        (data / "a file").touch()
    status, out, err = ibi("doctor", "--data", data)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert [path.name for path in tmp_path.rglob("*")] == (["other", "a file"] if make else [])


@pytest.mark.parametrize("words", [[], ["--data"], ["--data", "x", "--port", "0"], ["--data", "x", "--fly"]])
def test_wrong_usage_has_status_2(ibi: Ibi, words: list[str]) -> None:
    assert ibi("doctor", *words)[0] == 2
