"""An Archive and a resolver on https are full partners of all others, and find their certificates."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from ibi.app.archive import archive_directory
from ibi.archive.store.tables import memberships
from ibi.cli import main
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.runtime.settings import ArchiveSettings, JoinedResolver
from support.cli.archive_commands import COMMAND, Resolver, deposited, get, ibi, make_archive, serving, until
from support.network.https_network import SERVICE, HttpsNetwork, https_network, make_authority, serving_https
from support.ports import free_port
from support.resolver.standard_resolver import StandardArchive, StandardResolver

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("english")]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsNetwork]:
    with https_network(tmp_path_factory.mktemp("https")) as made:
        yield made


def test_a_message_without_tls_is_answered_and_its_links_are_https(network: HttpsNetwork) -> None:
    about = json.loads(network.get(f"http://127.0.0.1:{network.archive_port}/-/about").body)
    assert (about["public_url"], about["resolver"]) == (network.archive, network.resolver)
    assert about["address"] == f"127.0.0.1:{network.archive_port}"
    page = network.get(f"http://127.0.0.1:{network.resolver_port}/-/about")
    assert json.loads(page.body)["public_url"] == network.resolver
    assert "strict-transport-security" not in page.headers  # RFC 6797, 7.2


def test_a_renewed_certificate_is_served_without_a_restart(network: HttpsNetwork) -> None:
    host = network.resolver.removeprefix("https://").partition(":")[::2]
    trust = ssl.create_default_context(cafile=str(network.authority.file))

    def serial() -> str:
        with (
            socket.create_connection((host[0], int(host[1])), timeout=30) as plain,
            trust.wrap_socket(plain, server_hostname=host[0]) as secure,
        ):
            return str((secure.getpeercert() or {})["serialNumber"])

    before = serial()
    broken = network.authority.folder / "resolver.pem"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100])  # half written: the former one stays in use
    time.sleep(6)
    assert serial() == before
    network.authority.certify("resolver")
    until(lambda: serial() != before)
    assert network.get(f"{network.resolver}/-/healthz").body == b"ok\n"


def test_an_archive_goes_over_to_https_at_its_resolver_and_stays_in(network: HttpsNetwork) -> None:
    data = network.folder / "archive"
    plain = f"http://127.0.0.1:{network.resolver_port}"
    key = ArchiveSettings.read(data).key
    for root in (plain, network.resolver):
        ibi("archive", "join", "--data", data, "--resolver", root)
        settings = ArchiveSettings.read(data)
        assert (settings.resolver, settings.key) == (root, key)
        assert JoinedResolver.read_tables(data) == {}
        until(partial(_stands, data, {root: "included"}))
        assert json.loads(network.get(f"{network.resolver}/-/about").body)["archives"] == 1


@pytest.mark.parametrize("words", [(), ("--also",)])
def test_two_resolvers_of_one_host_one_of_them_on_https_are_two(
    network: HttpsNetwork, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(network.authority.file))
    third, data, port = Resolver(tmp_path / "third"), tmp_path / "archive", free_port()
    with third.running():
        service = make_archive(data, port, "--resolver", third.url)
        key = ArchiveSettings.read(data).key
        third.register(service, key)
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            until(partial(_stands, data, {third.url: "included"}))
            ibi("archive", "join", "--data", data, "--resolver", network.resolver, *words)
            until(lambda: network.resolver in _standings(data))
            settings = ArchiveSettings.read(data)
            tables = {each.url: each for each in JoinedResolver.read_tables(data).values()}
            if words:
                assert (settings.resolver, settings.key, third.included) == (
                    third.url,
                    key,
                    {service: third.included[service]},
                )
                assert tables[network.resolver].key != key
            else:  # it replaces the first one, which is left
                until(lambda: not third.included)
                assert (settings.resolver, settings.key == key) == (network.resolver, False)
                assert (tables[third.url].key, tables[third.url].left) == (key, True)


def _standings(data: Path) -> dict[str, str]:
    with closing(archive_directory(data).open_catalogue()) as catalogue, catalogue.reading() as run:
        return {url: str(each.standing) for url, each in memberships.all_memberships(run).items()}


def _stands(data: Path, expected: dict[str, str]) -> bool:
    return _standings(data) == expected


def test_a_certificate_that_is_not_trusted_ends_the_message_with_a_reason(
    network: HttpsNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_authority(tmp_path / "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    make_archive(tmp_path / "stranger", free_port(), "--resolver", network.resolver)
    printed = capsys.readouterr().err
    assert f"the resolver {network.resolver} does not answer" in printed
    assert "unable to get local issuer certificate" in printed


def test_a_key_is_changed_over_https(network: HttpsNetwork) -> None:
    data = network.folder / "archive"
    before = ArchiveSettings.read(data).key
    trusting = {**os.environ, "SSL_CERT_FILE": str(network.authority.file)}
    command = [*COMMAND, "archive", "rotate-key", "--data", str(data)]
    subprocess.run(command, check=True, env=trusting)
    assert ArchiveSettings.read(data).key != before
    until(partial(_stands, data, {network.resolver: "included"}))


def test_an_archive_that_knows_only_http_takes_part(
    network: HttpsNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port = tmp_path / "plain", free_port()
    base = f"http://127.0.0.1:{network.resolver_port}/{SERVICE}"
    service = make_archive(data, port, "--resolver", base)
    words = ("--archive-service", service, "--key", ArchiveSettings.read(data).key)
    ibi("resolver", "register", "--data", network.folder / "resolver", *words)
    name = deposited(data, tmp_path / "plain.txt", capsys)
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(partial(_stands, data, {base.removesuffix(f"/{SERVICE}"): "included"}))
        click = network.get(f"{network.resolver}/{name}")
        assert click.status == 302
        assert click.headers["location"].startswith(f"http://127.0.0.1:{port}/")
        until(lambda: _acknowledged(data, name))


def _acknowledged(data: Path, name: str) -> bool:
    with closing(archive_directory(data).open_catalogue()) as catalogue:
        holding = catalogue.holding(parse_ibi(name))
        return holding is not None and catalogue.acknowledgments(holding.number) == 1


def test_an_original_that_is_handed_over_between_https_archives_is_never_two_for_a_resolver_of_the_standard(
    network: HttpsNetwork, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(network.authority.file))
    here, there, tls, plain = network.folder / "archive", network.folder / "there", free_port(), free_port()
    services = [
        str(ArchiveSettings.read(here).service.main),
        make_archive(there, plain, "--resolver", network.resolver),
    ]
    to = f"https://127.0.0.1:{tls}"
    key = ArchiveSettings.read(there).key
    words = ("--data", network.folder / "resolver", "--archive-service", services[1], "--key", key)
    ibi("resolver", "register", *words)
    name = deposited(here, network.folder / "handed.txt", capsys)
    with (
        StandardResolver("J8LNKB5R7W/3FUQHC5", "1" * 20).running() as other,
        serving_https(network.authority, "archive", there, tls, plain),
    ):
        base = f"{other.url}/{other.service}"
        for data in (here, there):
            ibi("archive", "join", "--data", data, "--also", "--resolver", base, "--key", other.key)
        until(lambda: set(other.included) == set(services))
        until(lambda: json.loads(network.get(f"{network.resolver}/-/about").body)["archives"] == 2)
        assert other.click(name).startswith(f"{network.archive}/")
        _know_each_other(here, network.archive, there, to, capsys)
        with _watching(other, name, services[::-1]) as seen:
            ibi("archive", "transfer", "--data", here, name, "--to", "there")
        assert (seen[0], seen[-1]) == (("", "Original"), ("Original", "Copy"))
        assert [each for each in seen if each.count("Original") > 1 or set(each) == {""}] == []
        where = other.click(name)
        assert where.startswith(f"{to}/")
        assert network.get(where).body == b"to be read"
        until(partial(_acknowledged, there, name))
        copy = other.ask(name, services[0])
        assert (copy["state"], network.get(copy["url"]).body) == ("Copy", b"to be read")
        assert copy["url"].startswith(f"{network.archive}/")
        demanded = f"{network.resolver}/{name}?ibiurl.requireditemstatus=Original"
        until(lambda: network.get(demanded).headers.get("location", "").startswith(f"{to}/"))
        ibi("archive", "leave", "--data", here, "--resolver", base)


def _know_each_other(here: Path, root: str, there: Path, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Make two Archives peers, as the guide says, so that one can hand an original over to the other."""
    capsys.readouterr()
    ibi("archive", "token", "add", "here", "--scope", "transfer", "--data", there)
    token = capsys.readouterr().out.split()[-1]
    ibi("archive", "peer", "--data", there, "--name", "here", "--address", root)
    ibi("archive", "peer", "--data", here, "--name", "there", "--address", to, "--token", token)


@contextmanager
def _watching(resolver: StandardResolver, name: str, services: list[str]) -> Iterator[list[tuple[str, ...]]]:
    """Ask these Archives for an item again and again, and keep the states that they tell.

    The receiver is asked first: once it has the original, the giver, which is asked later, has none.
    """

    def ask() -> tuple[str, ...]:
        return tuple(resolver.ask(name, service).get("state", "") for service in services)

    def watch() -> None:
        while not done.is_set():
            seen.append(ask())

    seen, done = [ask()], Event()
    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield seen
        finally:
            done.set()
        watcher.result()
    seen.append(ask())


def test_the_archive_is_a_full_partner_of_a_resolver_that_speaks_the_standard_over_http_and_nothing_else(
    network: HttpsNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    data = network.folder / "archive"
    name = deposited(data, network.folder / "partner.txt", capsys)
    with StandardResolver("J8LNKB5R7W/3FUQHC5", "none yet").running() as other:
        base = f"{other.url}/{other.service}"
        ibi("archive", "join", "--data", data, "--also", "--resolver", base, "--key", "1" * 20)
        until(lambda: "inclusionRequest" in other.subjects)  # it applies
        assert other.included == {}
        other.key = "1" * 20  # and is approved
        until(lambda: other.included)
        assert list(other.included.values()) == [f"127.0.0.1:{network.archive_port}"]
        where = other.click(name)
        assert where.startswith(f"{network.archive}/")
        assert network.get(where).body == b"to be read"
        until(partial(_acknowledged, data, name))
        other.key = "2" * 20
        other.included.clear()
        ibi("archive", "join", "--data", data, "--resolver", base, "--key", other.key)
        until(lambda: other.included)
        ibi("archive", "leave", "--data", data, "--resolver", base)
        until(lambda: not other.included)


def test_archives_that_speak_the_standard_over_http_and_nothing_else_are_full_partners_of_the_resolver(
    network: HttpsNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, item = f"127.0.0.1:{network.resolver_port}", "far.example/x/2010/01.01.00.00"
    data = network.folder / "resolver"
    ibi("resolver", "set", "--data", data, "registration", "form")
    first, second = (StandardArchive(f"far.example/{name}/2020/01.01.00.00", "") for name in ("one", "two"))
    with first.running(), second.running():
        keys = dict[str, str]()
        for archive in (first, second):
            fields = {"service_ibi": archive.service, "address": archive.address, "mail": "a@far.example"}
            until(lambda: network.get(f"{network.resolver}/-/register").status == 200)
            applied = network.post(f"{network.resolver}/-/register", fields, accept="application/json")
            keys[archive.service] = json.loads(applied.body)["key"]
            assert _requested(plain, archive, keys[archive.service]) == 403
            ibi("resolver", "approve", "--data", data, archive.service)
            until(partial(_is_included, plain, archive, keys[archive.service]))
        first.state = "Original"
        url = f"{network.resolver}/{item}"
        assert network.get(url).headers["location"] == f"{first.url}/items/{item}"
        until(lambda: [each["url.persistent"] for each in first.acknowledgments] == [url])
        # The original moves: the resolver follows, and neither holder nor item is lost.
        first.state, second.state = "Copy", "Original"
        demanded = f"{url}?ibiurl.requireditemstatus=Original"
        until(lambda: network.get(demanded).headers.get("location") == f"{second.url}/items/{item}")
        until(lambda: second.acknowledgments)
        capsys.readouterr()
        ibi("resolver", "rotate", "--data", data, second.service)
        new = capsys.readouterr().out.strip()
        assert _requested(plain, second, keys[second.service]) == 403
        assert _requested(plain, second, new) == 200


def _requested(resolver: str, archive: StandardArchive, key: str) -> int:
    """The status of the answer to an inclusion request of an Archive."""
    address = archive.address
    message = InclusionRequest(address, parse_ibi(archive.service), "127.0.0.1", "1.0", "a@far.example", key)
    return get(int(resolver.rpartition(":")[2]), f"/{SERVICE}?{message.query()}", resolver)[0]


def _is_included(resolver: str, archive: StandardArchive, key: str) -> bool:
    return _requested(resolver, archive, key) == 200


def test_the_doctor_looks_at_the_public_url(
    network: HttpsNetwork, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(network.authority.file))
    data = network.folder / "resolver"
    ibi("resolver", "set", "--data", data, "public_url", network.resolver)
    capsys.readouterr()
    main(["doctor", "--data", str(data), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    [end] = [each for each in found if each["name"] == "certificate"]
    assert "the certificate of 127.0.0.1 is valid for 89 more days" in end["sentence"], found
