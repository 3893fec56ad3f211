"""`ibi init` as people and scripts use it: at a terminal, without one, and a second time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from getpass import getuser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from ibi.accounts.people import Accounts, is_hash_of
from ibi.cli.setup.answers import Answers
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from support.cli.terminal import interrupt, terminal
from support.concurrency.forked import run_ibi, start_ibi
from support.ports import free_port

Typed = Callable[..., tuple[int, str, str]]

TRYING = (
    "--for-trying",
    "--domain",
    "127.0.0.1",
    "--ip",
    "127.0.0.1",
    "--admin",
    "maria@archive.example",
    "--yes",
)


def both(folder: Path) -> tuple[object, ...]:
    """The words of a command that sets up an Archive and a resolver at two ports of this machine."""
    port = free_port(2)
    ports = ("--port", port, "--resolver-port", port + 1, "--resolver-domain", "127.0.0.1")
    return ("init", "--data", folder, "--kind", "both", "--proxy", "none", *ports, *TRYING)


def tree(folder: Path) -> dict[str, bytes]:
    """What is in a folder, without the data directories."""
    files = [
        each for each in folder.rglob("*") if each.is_file() and each.relative_to(folder).parts[0] == "setup"
    ]
    settings = folder.glob("*/*/*.toml")
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in (*files, *settings)}


def refused(*words: object) -> subprocess.CompletedProcess[str]:
    """What a command without a terminal says that does nothing."""
    done = run_ibi(*words, stdin=subprocess.DEVNULL, text=True, env={**os.environ, "LANGUAGE": "en"})
    assert done.returncode in {1, 2}, done
    assert "Traceback" not in done.stderr
    return done


@contextmanager
def running(data: Path, kind: str, port: int) -> Iterator[None]:
    """Serve a data directory as its unit does."""
    words = [kind, "serve", "--data", data, "--bind", f"127.0.0.1:{port}"]
    with start_ibi(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready ")
        try:
            yield
        finally:
            server.terminate()
            server.wait(30)


def test_a_network_that_was_set_up_runs_and_its_administrator_signs_in(typed: Typed, tmp_path: Path) -> None:
    status, out, _ = typed(*both(tmp_path), "--json")
    assert status == 0
    made = json.loads(out)
    resolver, archive = made["services"]
    assert [each["kind"] for each in (resolver, archive)] == ["resolver", "archive"]
    assert {"fault"}.isdisjoint(found["verdict"] for each in made["services"] for found in each["findings"])
    with ExitStack() as stack:
        for each in (resolver, archive):
            port = int(each["address"].rpartition(":")[2])
            stack.enter_context(running(Path(each["data"]), each["kind"], port))
        end = time.monotonic() + 30
        while "included" not in (shown := typed("archive", "show", "--data", archive["data"], "--json")[1]):
            assert time.monotonic() < end, shown
            time.sleep(0.2)
        for each in (resolver, archive):
            status, found, _ = typed("doctor", "--data", each["data"])
            assert status == 0, found
            assert f"{each['address']} leads here" in found
            assert signs_in(each["address"], each["account"], each["password"])
            assert not signs_in(each["address"], each["account"], each["password"] + "x")


def signs_in(address: str, name: str, password: str) -> bool:
    """Whether the page for administrators takes a name and a password from this machine."""
    connection = HTTPConnection(address, timeout=30)
    form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{address}"}
    connection.request("POST", "/-/admin/sign-in", urlencode({"name": name, "password": password}), form)
    reply = connection.getresponse()
    reply.read()
    connection.close()
    assert reply.status < 500, reply.status
    return reply.status == 303


@pytest.mark.long
def test_questions_at_a_terminal_refuse_what_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.pdf").touch()
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / ArchiveSettings.FILE).touch()
    folder, port = tmp_path / "new", free_port()
    with socket.socket() as taken, terminal("init", "--resolver", "http://resolver.example.org") as person:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        person.answer("In which folder", str(tmp_path / "full"))
        assert "is not empty" in person.answer("In which folder", str(tmp_path / "archive"))
        assert "is the data directory of a service already" in person.answer("In which folder", str(folder))
        person.answer("What do you want to run?", "an Archive")
        assert "the answer is one of" in person.answer("What do you want to run?", "1")
        person.answer("What is the name of the Archive", "my archive")
        assert "this is not the name of a host" in person.answer("What is the name", "archive.example.org")
        person.answer("public IP address", "10.0.0.1")
        assert "not public" in person.answer("public IP address", "192.88.98.1")
        assert "not an address of this machine" in person.answer("public IP address", "192.88.98.1")
        person.answer("Which proxy", "")
        person.answer("At which port of this machine", str(taken.getsockname()[1]))
        assert "another program listens" in person.answer("At which port of this machine", str(port))
        assert "[admin@archive.example.org]" in person.answer("mail address? [", "")
        person.answer("Under which name", "maria silva")
        assert "name of an account" in person.answer("Under which name", "maria")
        shown = person.answer("Shall it be made? [no]", "yes")
        assert "setup/proxy/Caddyfile" in shown
        assert "Which resolver" not in person.seen
        shown = person.read_until("Then check that all is in order with:")
        assert person.process.wait(60) == 0
    assert "archive.example.org leads nowhere yet" in shown
    assert f"sudo sh {folder}/setup/install.sh" in shown
    data = folder / "archive" / "archive.example.org"
    settings = ArchiveSettings.read(data)
    assert (settings.address, settings.ip) == ("archive.example.org", "192.88.98.1")
    assert (settings.public_url, settings.mint_host) == ("https://archive.example.org", "archive.example.org")
    assert settings.trusted_proxies == ("127.0.0.1/32", "::1/128")
    assert Answers.read(folder / "setup").port == port
    [account] = Accounts(data).all()
    [line] = [line for line in shown.splitlines() if line.startswith("archive  ")]
    assert (account.name, account.role) == ("maria", "administrator")
    assert is_hash_of(account.hash, line.split()[-1])


@pytest.mark.long
def test_questions_are_asked_in_portuguese(tmp_path: Path) -> None:
    with terminal("init", "--data", tmp_path / "a", language="pt_BR") as person:
        person.answer("O que você quer instalar?", "um arquivo")
        assert "a resposta é uma destas" in person.answer("O que você quer instalar?", "1")
        person.answer("Qual é o nome do Arquivo", "arquivo.exemplo.br")
        person.answer("endereço IP público", "8.8.8.8")
        assert "Se mesmo assim estiver certa" in person.answer("endereço IP público", "8.8.8.8")
        for question in (
            "Qual proxy",
            "Em qual porta",
            "e-mail do administrador",
            "Com que nome",
            "De qual resolvedor",
        ):
            person.answer(question, "")
        person.answer("Criar tudo isso? [não]", "")
        person.read_until("nada foi criado")
        assert person.process.wait(60) == 1
    assert not (tmp_path / "a").exists()


@pytest.mark.long
@pytest.mark.parametrize("when", ["while asking", "while making"])
def test_what_is_interrupted_leaves_nothing_half(tmp_path: Path, when: str) -> None:
    folder = tmp_path / "a"
    words = both(folder) if when == "while making" else ("init", "--data", folder)
    with terminal(*words) as person:
        if when == "while asking":
            person.read_until("What do you want to run?")
        while when == "while making" and not list(folder.glob(".new-*/resolver/*/minting")):
            assert person.process.poll() is None, person.seen
            time.sleep(0.01)
        interrupt(person.process)
        person.read_until("nothing was made")
        assert person.process.wait(60) == 130
    assert not folder.exists()


def test_without_a_terminal_one_sentence_names_the_missing_options(tmp_path: Path) -> None:
    sentence = "without a terminal, options must say: "
    assert f"{sentence}--data --kind --domain --proxy --port --admin --account\n" in refused("init").stderr
    given = ("init", "--data", tmp_path / "a", "--kind", "both", "--domain", "archive.example.org")
    missing = "--resolver-domain --ip --proxy --port --resolver-port --admin --account"
    assert f"{sentence}{missing}\n" in refused(*given).stderr
    assert not (tmp_path / "a").exists()


def test_a_bad_option_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ("init", "--data", tmp_path / "a", "--domain", "archive.example.org", "--ip", "8.8.8.8")
        done = refused(*words, "--behind-nat", "--port", port, "--yes")
        assert f"ibi: --port: another program listens at port {port}; give another one\n" == done.stderr
        assert "if one does, give --behind-nat" in refused(*words, "--yes").stderr
        assert "--resolver does not belong here" in refused(
            *both(tmp_path / "a"), "--resolver", "http://resolver.example.org"
        ).stderr  # fmt: skip
    assert not (tmp_path / "a").exists()


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """Root may write everywhere, so the command runs as another user, who may read the source."""
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o755)
    if os.geteuid() != 0:
        shut.chmod(0o555)
        done = refused("init", "--data", shut / "a", "--yes")
    else:
        program = (
            "import os, sys; from pathlib import Path; from ibi.cli.setup.surroundings import folder_fault;"
        )
        program += "os.setuid(65534); print(folder_fault(Path(sys.argv[1])))"
        code = [sys.executable, "-c", program, str(shut / "a")]
        done = subprocess.run(code, capture_output=True, text=True, timeout=60, check=True)
    # pytest keeps its folders from other users, so the nearest one that the user sees is above.
    assert "you may not write in /" in done.stdout + done.stderr


def test_a_second_run_changes_nothing_without_being_asked(typed: Typed, tmp_path: Path) -> None:
    first = (*both(tmp_path / "a"), "--account", "maria")
    assert typed(*first)[0] == 0
    before = tree(tmp_path / "a")
    assert typed("init", "--data", tmp_path / "a", "--yes")[2].startswith(
        f"{tmp_path}/a is set up as the answers say"
    )
    port = free_port()
    words = ("init", "--data", tmp_path / "a", "--yes", "--admin", "joao@archive.example", "--port", port)
    status, out, err = typed(*words)
    assert (status, err) == (0, "nothing was changed; --apply makes these changes\n")
    for line in (
        '-admin = "maria@archive.example"',
        '+admin = "joao@archive.example"',
        f"+ListenStream=0.0.0.0:{port}",
    ):
        assert line in out.splitlines()
    settings = ArchiveSettings.read(tmp_path / "a/archive/127.0.0.1")
    assert settings.key not in out
    assert settings.secret not in out
    assert tree(tmp_path / "a") == before


def test_a_second_run_makes_the_changes_that_are_wanted(typed: Typed, tmp_path: Path) -> None:
    assert typed(*both(tmp_path / "a"))[0] == 0
    archive, resolver = tmp_path / "a/archive/127.0.0.1", tmp_path / "a/resolver/127.0.0.1"
    old = ArchiveSettings.read(archive)
    assert typed("archive", "set", "--data", archive, "--network", "10.0.0.0/8")[0] == 0
    words = ("init", "--data", tmp_path / "a", "--yes", "--proxy", "nginx", "--json")
    assert json.loads(typed(*words)[1])["applied"] is False
    done = json.loads(typed(*words, "--apply")[1])
    assert done["applied"] is True
    assert {each["path"] for each in done["changes"]} >= {
        "archive/127.0.0.1/archive.toml", "resolver/127.0.0.1/resolver.toml", "setup/install.sh",
        "setup/proxy/nginx.conf",
    }  # fmt: skip
    new = ArchiveSettings.read(archive)
    assert (new.address, new.aliases, new.public_url) == ("127.0.0.1", (old.address,), "https://127.0.0.1")
    assert (new.key, new.service, new.networks) == (old.key, old.service, ("10.0.0.0/8",))
    assert new.trusted_proxies == ("127.0.0.1/32", "::1/128")
    assert new.resolver == "https://127.0.0.1"
    assert ResolverSettings.read(resolver).public_url == "https://127.0.0.1"
    assert json.loads(typed(*words)[1])["changes"] == []
    back = json.loads(
        typed("init", "--data", tmp_path / "a", "--yes", "--proxy", "none", "--apply", "--json")[1]
    )
    assert "setup/proxy/nginx.conf" in {each["path"] for each in back["changes"]}
    assert not (tmp_path / "a/setup/proxy/nginx.conf").exists()
    assert ArchiveSettings.read(archive).trusted_proxies == ()


@pytest.mark.long
def test_a_second_run_asks_at_a_terminal(typed: Typed, tmp_path: Path) -> None:
    assert typed(*both(tmp_path / "a"))[0] == 0
    for answer, admin in (("no", "maria@archive.example"), ("yes", "joao@archive.example")):
        with terminal("init", "--data", tmp_path / "a", "--admin", "joao@archive.example") as person:
            questions = (
                "What do you want",
                "name of the Archive",
                "name of the resolver",
                "IP address",
                "Which proxy",
            )
            for question in (*questions, "does 127.0.0.1 answer?", "does 127.0.0.1 answer?"):
                person.answer(question, "")
            assert '+admin = "joao@archive.example"' in person.answer(
                "Shall these changes be made? [no]", answer
            )
            person.read_until("nothing was changed" if answer == "no" else "install.sh")
            assert person.process.wait(60) == 0
        assert ArchiveSettings.read(tmp_path / "a/archive/127.0.0.1").admin == admin


def test_the_user_of_the_services_gets_to_its_data_whatever_the_umask(typed: Typed, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert typed(*both(tmp_path / "a"))[0] == 0
    finally:
        os.umask(before)
    for name in ("", "archive", "resolver", "setup"):
        assert (tmp_path / "a" / name).stat().st_mode & 0o777 == 0o755, name
    for settings in ("archive/127.0.0.1/archive.toml", "resolver/127.0.0.1/resolver.toml"):
        assert (tmp_path / "a" / settings).stat().st_mode & 0o777 == 0o600


def test_where_the_last_step_fails_nothing_is_left(tmp_path: Path) -> None:
    """A folder that appears while everything is being made is in the way of the last rename."""
    folder = tmp_path / "a"
    folder.mkdir()
    with start_ibi(both(folder), stderr=subprocess.PIPE, text=True) as command:
        while not list(folder.glob(".new-*/resolver/*/minting")):
            assert command.poll() is None
            time.sleep(0.01)
        (folder / "setup" / "photos").mkdir(parents=True)
        assert command.stderr is not None
        assert "cannot be written" in command.stderr.read()
        assert command.wait(60) == 1
    assert sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*")) == [
        "setup",
        "setup/photos",
    ]
    assert "is not empty" in refused("init", "--data", folder, "--yes").stderr


def test_of_two_commands_at_once_one_sets_the_folder_up(tmp_path: Path) -> None:
    words = [*both(tmp_path / "a"), "--json"]
    both_at_once = [
        start_ibi(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    outcomes = [(each.communicate(timeout=120), each.returncode) for each in both_at_once]
    assert sorted(status for _, status in outcomes) == [0, 1], outcomes
    [(out, _)] = [printed for printed, status in outcomes if status == 0]
    for each in json.loads(out)["services"]:
        [account] = Accounts(Path(each["data"])).all()
        assert is_hash_of(account.hash, each["password"])
    assert not list((tmp_path / "a").glob(".new-*"))


def test_the_script_that_installs_is_a_script_and_wants_root(typed: Typed, tmp_path: Path) -> None:
    assert typed(*both(tmp_path / "my-folder"))[0] == 0
    script = tmp_path / "my-folder/setup/install.sh"
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    user = "ibi" if os.geteuid() == 0 else getuser()
    changed = f"find {tmp_path}/my-folder/archive/127.0.0.1 ! -user {user} -exec chown -h {user}: {{}} +"
    assert changed in script.read_text("utf-8")
