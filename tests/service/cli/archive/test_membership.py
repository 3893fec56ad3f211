"""An Archive in networks, as its administrator types it: real resolvers, real servers, and one that dies."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.archive.membership import membership
from ibi.cli import main
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, ResolverSettings
from support.cli.archive_commands import (
    Resolver,
    deposited,
    get,
    ibi,
    join,
    make_archive,
    serving,
    shown,
    until,
)
from support.network.up import Answer
from support.network.up import get as click
from support.ports import free_port
from support.served import served

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("english")]


@pytest.fixture
def first(tmp_path: Path) -> Resolver:
    return Resolver(tmp_path / "r1")


@pytest.fixture
def second(tmp_path: Path) -> Resolver:
    return Resolver(tmp_path / "r2")


@pytest.fixture
def joined(tmp_path: Path, first: Resolver, second: Resolver) -> Iterator[tuple[Path, int, str]]:
    """An Archive that has joined both resolvers, the first of which runs: data, port, service."""
    data, port = tmp_path / "a", free_port()
    service = make_archive(data, port)
    join(data, service, first)
    join(data, service, second, "--also")
    with first.running():
        yield data, port, service


def _click(resolver: Resolver, name: str) -> Answer:
    return click(f"{resolver.url}/{name}")


def _is_unavailable(answer: Answer, service: str) -> None:
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    assert service in answer.body.decode()


def _standing(found: dict[str, Any]) -> dict[str, str]:
    return {each["url"]: each["standing"] for each in found["resolvers"]}


@pytest.mark.proves("REG-03", "REG-04", "ARC-15")
def test_a_resolver_that_dies_and_comes_back_holds_up_no_other(
    joined: tuple[Path, int, str], first: Resolver, second: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: service in first.included)
        until(lambda: _standing(shown(data, capsys)) == {first.url: "included", second.url: "waiting"})
        found = shown(data, capsys)
        assert found["resolvers"][1]["problem"]
        assert found["served"]
        assert found["items"] == {"Original": 1, "Copy": 0, "Deleted": 0}
        with second.running():
            until(lambda: service in second.included)
            until(lambda: _standing(shown(data, capsys))[second.url] == "included")
            assert second.included[service].confirmed
            assert second.included[service].address == f"127.0.0.1:{port}"
        assert get(port, "/-/healthz")[0] == 200  # the second is gone again
        until(lambda: shown(data, capsys)["audit"]["begun"])  # one of the things that it does by itself
    assert first.included == {}
    until(lambda: not shown(data, capsys)["served"])


def test_a_private_address_is_refused_as_such_until_the_resolver_allows_it(
    joined: tuple[Path, int, str], second: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    ibi("resolver", "set", "--data", second.data, "allow_private_archives", "false")
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"), second.running():
        until(lambda: _standing(shown(data, capsys))[second.url] == "refused")
        problem = shown(data, capsys)["resolvers"][1]["problem"]
        assert f"it contacts no Archive at 127.0.0.1:{port}" in problem
        assert "ibi resolver set allow_private_archives yes" in problem
        ibi("resolver", "set", "--data", second.data, "allow_private_archives", "true")
        until(lambda: service in second.included, 90)
        until(lambda: list((second.data / "filters").glob("*.filter")))


def test_the_doctor_tells_an_archive_that_its_address_is_refused(
    joined: tuple[Path, int, str], second: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, _ = joined
    ibi("resolver", "set", "--data", second.data, "allow_private_archives", "false")
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"), second.running():
        until(lambda: _standing(shown(data, capsys))[second.url] == "refused")
        main(["doctor", "--data", str(data)])
        lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if f"{second.url}: refused since " in line]
    assert line.startswith("warning     resolver ")
    assert f"it contacts no Archive at 127.0.0.1:{port}" in line
    assert "ibi resolver set allow_private_archives yes" in line


def test_an_edited_language_leads_from_one_item_to_the_other_at_the_resolver(
    joined: tuple[Path, int, str], first: Resolver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first item had no language when its translation was deposited; that of the translation was wrong."""
    data, port, _ = joined
    english = deposited(data, tmp_path / "one.txt", capsys)
    words = ("--translation-of", english, "--language", "fr", "--json", tmp_path / "un.txt")
    (tmp_path / "un.txt").write_text("à lire")
    ibi("archive", "deposit", "--data", data, "--title", "Un", *words)
    other = json.loads(capsys.readouterr().out)["rep"]
    with served(lambda: archive_service(data), f"127.0.0.1:{port}"):
        until(lambda: _click(first, other).status == 302)
        assert _click(first, f"{other}+(en)").status == 404
        ibi("archive", "edit", "--data", data, english, "--language", "en")
        until(lambda: _click(first, f"{other}+(en)").status == 302)
        assert _click(first, f"{other}+(en)").location.endswith(f"/col/{english}/doc/one.txt")
        assert _click(first, f"{english}+(fr)").location.endswith(f"/col/{other}/doc/un.txt")
        ibi("archive", "edit", "--data", data, other, "--language", "es")
        until(lambda: _click(first, f"{english}+(es)").status == 302)
        assert _click(first, f"{english}+(es)").location.endswith(f"/col/{other}/doc/un.txt")
        until(lambda: _click(first, f"{english}+(fr)").status == 404)
        assert _click(first, f"{other}+(en)").location.endswith(f"/col/{english}/doc/one.txt")


@pytest.mark.proves("REG-07", "ARC-15")
def test_switched_off_while_it_runs_it_is_asked_no_more_and_goes_on_answering(
    joined: tuple[Path, int, str], first: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: service in first.included)
        capsys.readouterr()
        ibi("archive", "switch", "off", "--data", data)
        until(lambda: service not in first.included)
        assert get(port, f"/-/item/{service}")[0] == 200
        assert not shown(data, capsys)["switched_on"]
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):  # it is kept for the next start
        assert get(port, f"/-/item/{service}")[0] == 200
        assert service not in first.included
        ibi("archive", "switch", "on", "--data", data)
        assert f"{first.url}: included" in capsys.readouterr().err
        assert service in first.included


def test_switched_off_after_a_power_cut_it_says_goodbye_by_itself(
    joined: tuple[Path, int, str], first: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}") as process:
        until(lambda: shown(data, capsys)["resolvers"][0]["standing"] == "included")
        process.kill()
        process.wait()
    assert service in first.included
    ibi("archive", "switch", "off", "--data", data)
    assert service not in first.included
    assert "excluded" in capsys.readouterr().err


def test_no_other_process_can_serve_an_archive_while_a_command_says_goodbye_for_it(
    tmp_path: Path, first: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the resolver could hear the goodbye after the inclusion of the server that has just started."""
    data, port = tmp_path / "a", free_port()
    join(data, make_archive(data, port), first)
    with first.running(), serving("--data", data, "--bind", f"127.0.0.1:{port}") as process:
        until(lambda: shown(data, capsys)["resolvers"][0]["standing"] == "included")
        process.kill()
        process.wait()
    switching = Thread(target=ibi, args=("archive", "switch", "off", "--data", data))
    with socket.create_server(("127.0.0.1", first.port)) as silent:  # in place of the resolver
        silent.settimeout(20)
        switching.start()
        with silent.accept()[0]:
            # At an address in use: so it ends even where nothing else forbids it.
            assert main(["archive", "serve", "--data", str(data), "--bind", f"127.0.0.1:{first.port}"]) == 1
            assert "this Archive is being served already" in capsys.readouterr().err
            switching.join(20)
    assert not switching.is_alive()


def test_links_to_an_archive_that_is_stopped_or_switched_off_are_unavailable_and_not_unknown(
    joined: tuple[Path, int, str], first: Resolver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopping ends the asking alone; only who leaves for good takes the names along."""
    data, port, service = joined
    clicked, unclicked = (deposited(data, tmp_path / name, capsys) for name in ("a.txt", "b.txt"))
    other_data, other_port = tmp_path / "b", free_port()
    other = make_archive(other_data, other_port)
    join(other_data, other, first)
    with serving("--data", other_data, "--bind", f"127.0.0.1:{other_port}"):
        until(lambda: other in first.included)
        _stop_switch_and_leave(data, port, service, first, (clicked, unclicked))


def _stop_switch_and_leave(
    data: Path, port: int, service: str, first: Resolver, names: tuple[str, str]
) -> None:
    clicked, unclicked = names
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: service in first.included)
        until(lambda: len(list((first.data / "filters").glob("*.filter"))) == 2)
        until(lambda: _click(first, clicked).status == 302)
    until(lambda: service not in first.included)
    unnamed = "archive.example/a/2030/01.01.00.00"  # younger than any filter, as far as the resolver can know
    for name in (*names, unnamed):
        _is_unavailable(_click(first, name), service)
    assert _click(first, "archive.example/c/2030/01.01.00.00").status == 404
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: _click(first, clicked).status == 302)
        ibi("archive", "switch", "off", "--data", data)
        until(lambda: service not in first.included)
        for name in names:
            _is_unavailable(_click(first, name), service)
        ibi("archive", "switch", "on", "--data", data)
        until(lambda: _click(first, clicked).status == 302)
        ibi("archive", "leave", "--data", data, "--resolver", first.url)
        until(lambda: _click(first, clicked).status == 404)
        assert _click(first, unclicked).status == 404


def test_a_resolver_that_is_left_asks_no_more(
    joined: tuple[Path, int, str], first: Resolver, second: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    with second.running():
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            until(lambda: service in first.included and service in second.included)
            ibi("archive", "leave", "--data", data, "--resolver", first.url)
            until(lambda: service not in first.included)
            assert service in second.included
            until(lambda: list(_standing(shown(data, capsys))) == [second.url])
        with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
            until(lambda: service in second.included)
    assert main(["archive", "leave", "--data", str(data), "--resolver", first.url]) == 1
    assert first.url in capsys.readouterr().err


def test_a_resolver_that_was_left_takes_the_archive_again_when_it_joins_without_a_key(
    joined: tuple[Path, int, str], first: Resolver
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: service in first.included)
        ibi("archive", "leave", "--data", data, "--resolver", first.url)
        until(lambda: service not in first.included)
        ibi("archive", "join", "--data", data, "--also", "--resolver", first.url)
        until(lambda: service in first.included)


def test_a_resolver_that_was_away_when_it_was_left_hears_of_it_after_a_restart(
    joined: tuple[Path, int, str], second: Resolver
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        with second.running():
            until(lambda: service in second.included)
        ibi("archive", "leave", "--data", data, "--resolver", second.url)
    assert service in second.included
    with second.running(), serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: service not in second.included)


@pytest.mark.proves("ARC-10", "REG-08")
def test_a_new_address_reaches_resolvers_at_once_and_old_links_go_on_working(
    joined: tuple[Path, int, str], first: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, service = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}", "--workers", "2"):
        until(lambda: service in first.included)
        ibi(
            "archive",
            "set",
            "--data",
            data,
            "--address",
            f"new.example:{port}",
            "--admin",
            "new@archive.example",
        )
        assert f"127.0.0.1:{port}" in capsys.readouterr().err
        until(lambda: first.included[service].address == f"new.example:{port}")
        assert first.included[service].admin_mail == "new@archive.example"
        hosts = (f"new.example:{port}", f"127.0.0.1:{port}")

        def everywhere() -> bool:
            """Whichever process answers: each of them looks at the settings in a moment of its own."""
            return {get(port, f"/-/item/{service}", host)[0] for host in hosts * 6} == {200}

        until(everywhere)
        assert get(port, f"/-/item/{service}", f"other.example:{port}")[0] == 421
    assert ArchiveSettings.read(data).aliases == (f"127.0.0.1:{port}",)


def test_the_doctor_tells_how_the_archive_stands(
    joined: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data, port, _ = joined
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: shown(data, capsys)["resolvers"][1]["problem"])
        until(lambda: "included" in shown(data, capsys)["resolvers"][0]["standing"])
        main(["doctor", "--data", str(data)])
        printed = capsys.readouterr().out
        assert ": included since " in printed
        assert ": waiting since " in printed
        ibi("archive", "switch", "off", "--data", data)
        main(["doctor", "--data", str(data)])
        assert "this Archive is switched off -> ibi archive switch on" in capsys.readouterr().out


def test_how_much_one_network_may_ask_is_set_like_other_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "rates"
    assert main(["archive", "init", "--data", str(data), "--address", "a.example", "--ip", "127.0.0.1",
                 "--for-trying"]) == 0  # fmt: skip
    capsys.readouterr()
    ibi("archive", "set", "--data", data, "--page-rate", "2.5", "--page-burst", "7", "--costly-rate", "0",
        "--costly-burst", "9", "--json")  # fmt: skip
    assert json.loads(capsys.readouterr().out) == {
        "page_rate": 2.5, "page_burst": 7, "costly_rate": 0.0, "costly_burst": 9,
    }  # fmt: skip
    assert ArchiveSettings.read(data).page_rate == 2.5
    assert main(["archive", "set", "--data", str(data), "--page-rate", "nan"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("takeover", [False, True], ids=["exclusion", "inclusion of another address"])
def test_what_a_replayed_message_did_lasts_no_longer_than_a_heartbeat(
    joined: tuple[Path, int, str], first: Resolver, monkeypatch: pytest.MonkeyPatch, takeover: bool
) -> None:
    """A party that has heard the key once can replay the message (threat T17)."""
    monkeypatch.setattr(membership, "HEARTBEAT", 0.5)
    data, port, service = joined
    known = ArchiveSettings.read(data).inclusion_request("0.1.0")
    kind = InclusionRequest if takeover else ExclusionRequest
    address = f"127.0.0.1:{free_port()}" if takeover else known.address
    replayed = kind(address, known.service_ibi, known.ip, "0.1.0", known.admin_mail, known.key)
    with served(lambda: archive_service(data), f"127.0.0.1:{port}"):
        until(lambda: service in first.included)
        target = f"/{ResolverSettings.read(first.data).service.main}?{replayed.query()}"
        done = b"included status.confirmation unsuccessful" if takeover else b"excluded"
        assert get(first.port, target)[1] == b"status.archive " + done
        until(lambda: service in first.included and first.included[service].address == known.address)
        assert first.included[service].confirmed


def test_the_doctor_says_which_files_of_keys_others_may_read(
    joined: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = joined[0] / JoinedResolver.FILE
    path.chmod(0o644)
    main(["doctor", "--data", str(joined[0])])
    assert f"{path} holds secrets" in capsys.readouterr().out
    path.write_text("[")
    assert main(["doctor", "--data", str(joined[0])]) == 1
    assert str(path) in capsys.readouterr().out


@pytest.mark.proves("ARC-15")
def test_two_archives_of_one_administrator_run_in_one_process(
    tmp_path: Path, first: Resolver, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = free_port(), free_port()
    services = []
    for name, port in zip("ab", ports, strict=True):
        services.append(make_archive(tmp_path / name, port))
        join(tmp_path / name, services[-1], first)
    words = [word for name, port in zip("ab", ports, strict=True)
             for word in ("--data", tmp_path / name, "--bind", f"127.0.0.1:{port}")]  # fmt: skip
    with first.running(), serving(*words, "--workers", "2", ready=2):
        until(lambda: set(first.included) == set(services))
        assert {each.address for each in first.included.values()} == {f"127.0.0.1:{port}" for port in ports}
        ibi("archive", "switch", "off", "--data", tmp_path / "a")
        until(lambda: set(first.included) == {services[1]})
        assert get(ports[0], f"/-/item/{services[0]}")[0] == 200
        assert main(["archive", "serve", "--data", str(tmp_path / "b"), "--bind", "127.0.0.1:0"]) == 1
        assert "served already" in capsys.readouterr().err
    assert first.included == {}


def test_each_of_several_archives_needs_a_place_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", "serve", "--data", "a", "--data", "b", "--bind", "127.0.0.1:0"]) == 1
    assert "--bind of its own" in capsys.readouterr().err


@pytest.mark.proves("ARC-10", "ARC-11")
def test_an_archive_whose_service_was_changed_is_not_served(
    joined: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = joined[0]
    path = data / ArchiveSettings.FILE
    path.write_text(path.read_text().replace("rep archive.example/a/", "rep archive.example/b/"))
    assert main(["archive", "serve", "--data", str(data), "--bind", "127.0.0.1:0"]) == 1
    assert "not the service item" in capsys.readouterr().err
    assert main(["doctor", "--data", str(data)]) == 1
    assert "not the service item" in capsys.readouterr().out


def test_what_is_set_is_shown_and_what_cannot_be_set_changes_nothing(
    joined: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = joined[0]
    before = (data / ArchiveSettings.FILE).read_bytes()
    for words in (
        ["--network", "10.0.0.1/8"], ["--ip", "nowhere"], [], ["--reuse-seconds", "99999999"],
        ["--reuse-seconds", "-1"], ["--filter-answers", "perhaps"],
    ):  # fmt: skip
        assert main(["archive", "set", "--data", str(data), *words]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    with pytest.raises(SystemExit) as leaving:
        main(["archive", "set", "--data", str(data), "--service", "a"])
    assert leaving.value.code == 2
    assert (data / ArchiveSettings.FILE).read_bytes() == before
    ibi(
        "archive",
        "set",
        "--data",
        data,
        "--network",
        "10.0.0.0/8",
        "--network",
        "192.0.2.0/24",
        "--reuse-seconds",
        "0",
    )
    table = tomllib.loads((data / ArchiveSettings.FILE).read_text())
    assert (table["networks"], table["reuse_seconds"]) == (["10.0.0.0/8", "192.0.2.0/24"], 0)
    ibi("archive", "set", "--data", data, "--network", "", "--json")
    assert capsys.readouterr().out.endswith('{"networks": []}\n')
    assert (data / ArchiveSettings.FILE).stat().st_mode & 0o077 == 0


def test_tls_at_the_archive_and_plain_http_for_resolvers(tmp_path: Path, first: Resolver) -> None:
    port, plain = free_port(), free_port()
    service = make_archive(tmp_path / "a", plain)
    join(tmp_path / "a", service, first)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"]
    command = ["openssl", "req", "-x509", *subject, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    words = ["--data", tmp_path / "a", "--bind", f"127.0.0.1:{port}", "--tls-cert", cert, "--tls-key", key]
    with first.running(), serving(*words, "--plain-bind", f"127.0.0.1:{plain}", ready=2):
        until(lambda: service in first.included)
        assert first.included[service].confirmed
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.load_verify_locations(cert)
        connection = HTTPSConnection("localhost", port, timeout=10, context=trust)
        connection.request("GET", f"/-/item/{service}", headers={"Host": f"127.0.0.1:{port}"})
        assert connection.getresponse().status == 200
        connection.close()
    assert first.included == {}


@pytest.mark.parametrize(
    "words",
    [
        ["--tls-cert", "x"],
        ["--plain-bind", "127.0.0.1:0"],
        ["--bind", "127.0.0.1:0", "--bind", "127.0.0.1:0"],
    ],
)
def test_options_of_serve_that_do_not_fit_are_one_sentence(
    words: list[str], joined: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", "serve", "--data", str(joined[0]), *words]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
