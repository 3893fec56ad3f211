"""All that the golden files hold, found out by one walk through the life of a small network.

Each golden file is a JSON document whose members are what one surface shows: see `recorded`.
"""

from __future__ import annotations

import collections
import json
import os
import re
import socket
import sys
import tomllib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import ibi as ibi_library
from support.ports import free_port
from surface import exchanges
from surface.commands import command_tree, ibi, leaves
from surface.network import (
    ABOUT_NEW,
    EMBARGOED,
    FIRST,
    LINKED,
    MINT,
    MOVING,
    NEW,
    OLD,
    REMOVED,
    RESOLVER,
    SECOND,
    SERVICES,
    THIRD,
    UNHEARD,
    UNKNOWN,
    UNLISTED,
    Network,
    must,
    network,
    until,
)
from surface.python_names import names
from surface.shapes import shape, shape_of_text

GOLDEN = Path(__file__).parent / "golden"

LANGUAGES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""The variables that tell the language of a person at a terminal, as POSIX and gettext have them."""

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
"""A reader's User-Agent: visits of programs are not counted."""

FOUND, MIRROR, SET_UP = "found", "mirror", "set-up"
"""An Archive, a resolver and a whole installation that are never served."""

Document = dict[str, Any]


def recorded(folder: Path) -> dict[str, Document]:
    """The documents by the names of their files; `folder` is absent or empty."""
    found: dict[str, Document] = {}
    (folder / "empty").mkdir(parents=True)
    found["commands"] = dict(command_tree(folder / "empty"))
    found["library"] = names()
    found["environment"] = environment()
    with network(folder / "network") as made:
        found |= _Walk(made).walk()
    return found


def written(document: Document) -> str:
    """A document as it stands in its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


class _Walk:
    """One network from its beginning to its end, and what it shows on the way."""

    def __init__(self, made: Network) -> None:
        self._net = made
        self._json: dict[str, Any] = {}
        self._commands = tuple(leaves())

    def walk(self) -> dict[str, Document]:
        """All documents that need a network."""
        found: dict[str, Document] = {}
        self._make_what_is_never_served()
        self._net.serve()
        until(self._index_is_ready, "the index is ready")
        self._visit_items()
        found["http-archive"] = self._answers(exchanges.at_an_archive())
        found["http-static"] = self._static()
        found["http-resolver"] = self._answers(exchanges.at_the_resolver())
        found["http-archive-interface"] = self._answers(exchanges.of_an_archive_s_interface())
        found["http-resolver-interface"] = self._answers(exchanges.of_the_resolver_s_interface())
        for name, program in (("archive", FIRST), ("resolver", RESOLVER)):
            document = self._net.ask(program, "GET", "/-/api/openapi.json")
            found[f"openapi-{name}"] = json.loads(self._net.tidied(document.body.decode()))
        self._questions()
        self._work()
        self._resolver()
        found["http-administration"] = self._administration()
        self._move()
        found["http-incomplete"] = self._answers(
            exchanges.Ask(RESOLVER, f"/{UNHEARD}", headers={"accept": accept})
            for accept in exchanges.FORMS_OF_AN_ALERT
        )
        found["http-mint"] = self._mint()
        self._set_up()
        found["files"] = self._files()
        self._end()
        found["json"] = dict(sorted(self._json.items()))
        found["evidence"] = _evidence(self._net.of(RESOLVER) / "evidence.jsonl")
        found["settings"] = self._settings()
        found["logs"] = _logs(self._net.data.glob("*.log"))
        return found

    # ---- helpers

    def _answers(self, asks: Iterable[exchanges.Ask]) -> Document:
        return {
            f"{ask.program}: {self._net.tidied(ask.title)}": exchanges.written(self._net, ask.of(self._net))
            for ask in asks
        }

    def _json_command(self, *words: object, status: int = 0, also: str = "") -> Any:
        """Run a command with --json and note the shape of what it prints; the JSON, or the last line of it."""
        typed = ibi(*words, "--json")
        name = max(
            (each for each in self._commands if f"ibi {' '.join(map(str, words))} ".startswith(f"{each} ")),
            key=len,
        )
        assert typed.status == status, (words, typed)
        title = f"{name} {also}".strip()
        assert title not in self._json, title
        self._json[title] = {"status": status, "prints": shape_of_text(typed.out) if typed.out else "nothing"}
        if not typed.out:
            return None
        try:
            return json.loads(typed.out)
        except json.JSONDecodeError:
            return json.loads(typed.out.splitlines()[-1])

    def _static(self) -> Document:
        """What the front pages fetch; its address changes with its content."""
        asks: dict[str, exchanges.Ask] = {}
        for name in (FIRST, RESOLVER):
            page = self._net.ask(name, "GET", "/", accept="text/html").body.decode()
            for path in re.findall(r"/-/static/[^\"'#]+", page):
                asks.setdefault(f"{name} {path.rpartition('.')[2]}", exchanges.Ask(name, path))
        assert asks
        return {
            title: exchanges.written(self._net, ask.of(self._net)) | {"body": ""}
            for title, ask in asks.items()
        }

    def _administration(self) -> Document:
        """How a person signs in, and the pages that are for administrators."""
        found: Document = {}
        for name, program in ((FIRST, "archive"), (RESOLVER, "resolver")):
            account = (
                "--data",
                self._net.of(name),
                "boss",
                "--role",
                "administrator",
                "--generate",
                "--json",
            )
            password = json.loads(must(program, "account", "add", *account))["password"]
            sign_in = "/-/admin/sign-in"
            answer = self._net.ask(name, "GET", sign_in)
            for word, outcome in (("wrong", "refused"), (password, "let in")):
                form = urlencode({"next": "", "name": "boss", "password": word})
                answer = self._net.ask(
                    name, "POST", sign_in, form, origin=self._net.url(name), accept="text/html",
                    content_type="application/x-www-form-urlencoded",
                )  # fmt: skip
                found[f"{name}: POST {sign_in}, {outcome}"] = exchanges.written(self._net, answer)
            cookie = "; ".join(
                re.findall(r"\bibi-[0-9a-f]{8}(?:-known)?=[^;,]+", answer.headers["set-cookie"])
            )
            for page in ("/sign-in", *exchanges.ADMINISTRATION[name]):
                shown = {} if page == "/sign-in" else {"cookie": cookie}
                answer = self._net.ask(name, "GET", f"/-/admin{page}", accept="text/html", **shown)
                found[f"{name}: GET /-/admin{page}"] = exchanges.written(self._net, answer)
        return found

    def _index_is_ready(self) -> bool:
        states = [
            self._net.ask(name, "GET", "/-/api/index", **self._net.program(name)) for name in (FIRST, SECOND)
        ]
        return all(state.json()["ready"] for state in states)

    def _visit_items(self) -> None:
        """Visit items, and wait until this is counted: else their figures come sooner or later during the walk."""
        items = (OLD, NEW, ABOUT_NEW, EMBARGOED, LINKED)
        for item in items:
            assert (
                self._net.ask(
                    FIRST, "GET", f"/-/item/{item}", accept=exchanges.HTML, user_agent=BROWSER
                ).status
                == 200
            ), item
        for item in items:
            until(partial(self._has_visits, item), f"a visit to {item} is counted")

    def _has_visits(self, item: str) -> bool:
        counted = self._net.ask(FIRST, "GET", f"/-/api/items/{item}/statistics").json()
        return bool(counted["months"])

    # ---- the walk

    def _make_what_is_never_served(self) -> None:
        data = self._net.of(FOUND)
        self._json_command(
            "archive", "init", "--data", data, "--address", "127.0.0.1:1", "--ip", "127.0.0.1",
            "--mint-host", "found.archive.example", "--mint-ip", "192.0.2.1", "--for-trying",
        )  # fmt: skip
        self._json_command("archive", "join", "--data", data, "--resolver", "http://resolver.example")
        must("archive", "join", "--data", data, "--resolver", "http://other.example", "--also")
        self._json_command("archive", "set", "--data", data, "--page-rate", "7", "--alias", "found.example")
        self._json_command("archive", "institution", "--data", data, "--name", "A library", "--colour", "abc")
        peer = ("--name", "b", "--address", "http://b.example", "--token", "t")
        self._json_command("archive", "peer", "--data", data, *peer, also="--name")
        self._json_command("archive", "peer", "--data", data)
        self._json_command(
            "resolver", "init", "--data", self._net.of(MIRROR), "--address", "127.0.0.1:1", "--allow-private-archives",
            "--service-ibi", "archive.example/mirror/2026/02.01.09.00",
        )  # fmt: skip

    def _questions(self) -> None:
        """Commands that only look."""
        first, root = self._net.of(FIRST), self._net.url(RESOLVER)
        texts = {
            "of a repository name": "sid.inpe.br/mtc-m18@80/2009/07.21.14.43",
            "of an IBIp": "8JMKD3MGP8W/35MMLL8",
            "of a legacy name": "6RPa7umaZ/UaJFT",
            "of a persistent URL": "http://urlib.net/8JMKD3MGP8W/35MMLL8!+(pt):/a.txt?x=1",
        }
        for also, text in texts.items():
            self._json_command("inspect", text, also=also)
        self._json_command("inspect", "8JMKD3MGP8W/35MML0O", status=1, also="of no name")
        self._json_command("archive", "list", "--data", first)
        self._json_command("archive", "show", "--data", first)
        for also, item in {
            "of an item": NEW,
            "of a removed item": REMOVED,
            "of a linked item": LINKED,
        }.items():
            self._json_command("archive", "show", "--data", first, item, also=also)
        self._json_command("archive", "search", "--data", first, "names")
        self._json_command("archive", "statistics", "--data", first)
        for what in ("settings", "audits", "backups", "jobs"):
            self._json_command("archive", what, "--data", first)
        self._job(first)
        for name in (FIRST, RESOLVER):
            self._json_command(
                "doctor", "--data", self._net.of(name), status=self._doctor(name), also=f"of the {name}"
            )
        self._json_command("resolve", OLD, "--resolver", root, "--explain")
        unknown = ("resolve", UNKNOWN, "--resolver", root, "--explain")
        until(
            lambda: not json.loads(ibi(*unknown, "--json").out)["rounds"][0]["asked"],
            "no Archive is asked again",
        )
        self._json_command(*unknown, status=1, also="of an unknown item")

    def _doctor(self, name: str) -> int:
        """The doctor may find this machine healthy or not; what it prints has the same shape."""
        return ibi("doctor", "--data", self._net.of(name)).status

    def _work(self) -> None:
        """Commands by which an Archive is kept."""
        net, first, second, found = self._net, self._net.of(FIRST), self._net.of(SECOND), self._net.of(FOUND)
        source = net.data / "source"
        self._json_command(
            "archive", "deposit", "--data", first, source / "notes.txt", "--title", "By a command"
        )
        self._json_command("archive", "edit", "--data", first, UNLISTED, "--rights", "anybody's")
        lines = source / "mixed.jsonl"
        lines.write_text('{"key": "k", "url": "http://elsewhere.example/k"}\n{"strange": 1}\n')
        self._json_command("archive", "import", "--data", first, lines, status=1)
        must("archive", "export", "--data", first, NEW, "--to", net.data / "bag")
        self._json_command("archive", "import-bag", "--data", found, net.data / "bag")
        self._json_command(
            "archive", "harvest", "--data", found, net.url(FIRST, "/-/oai"), "--allow-private", status=1
        )
        self._json_command("archive", "audit", "--data", first)
        self._json_command("archive", "check", "--data", first)
        self._json_command("archive", "backup", "--data", first, "--to", net.data / "backups", "--verify")
        self._json_command(
            "archive", "restore", "--from", net.data / "backups", "--data", net.data / "restored"
        )
        self._json_command("archive", "settle", "--data", net.data / "restored", "--all")
        must("archive", "attest", "--data", first, NEW, "--out", net.data / "receipt")
        self._json["the receipt of ibi archive attest"] = shape_of_text((net.data / "receipt").read_text())
        self._json_command("archive", "verify", net.data / "receipt", "--files", net.data / "bag" / "data")
        self._json_command(
            "archive", "copy", "--data", second, NEW, "--from", net.url(FIRST), "--allow-private"
        )
        self._json_command("archive", "refresh", "--data", second)
        passage = must(
            "archive", "token", "--data", second, "--name", "giver", "--scope", "transfer"
        ).split()[-1]
        must(
            "archive",
            "peer",
            "--data",
            first,
            "--name",
            "b",
            "--address",
            net.url(SECOND),
            "--token",
            passage,
        )
        must("archive", "peer", "--data", second, "--name", "giver", "--address", net.url(FIRST))
        must("resolve", f"{MOVING}?ibiurl.requireditemstatus=Original", "--resolver", net.url(RESOLVER))
        self._json_command("archive", "transfer", "--data", first, MOVING, "--to", "b")
        self._json_command(
            "archive", "token", "--data", found, "--name", "n", "--scope", "read", also="--name"
        )
        self._json_command("archive", "token", "--data", found, "--list", also="--list")
        self._json_command("archive", "token", "--data", found, "--revoke", "n", also="--revoke")
        self._json_command("archive", "token", "add", "--data", found, "n", "--scope", "read")
        self._json_command("archive", "token", "list", "--data", found)
        self._json_command("archive", "token", "remove", "--data", found, "n")
        self._accounts("archive", found, "keeper")
        self._json_command("archive", "account", "role", "--data", found, "ann", "--role", "depositor")
        self._json_command("archive", "account", "remove", "--data", found, "ann")

    def _job(self, first: Path) -> None:
        """A job that is under way: the harvest of a repository that does not answer."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/oai"
            body = {"url": url, "allow_private": True}
            begun = self._net.ask(FIRST, "POST", "/-/api/harvests", body, **self._net.program(FIRST)).json()
            self._json_command("archive", "job", "--data", first, begun["id"])
            self._json_command("archive", "stop-job", "--data", first, begun["id"])

    def _accounts(self, program: str, data: Path, role: str) -> None:
        account = (program, "account")
        self._json_command(*account, "add", "--data", data, "ann", "--role", role, "--generate")
        self._json_command(*account, "list", "--data", data)
        self._json_command(*account, "password", "--data", data, "ann", "--generate")

    def _resolver(self) -> None:
        """Commands by which a resolver is kept; and the word that another Archive has the original now."""
        net, data, mirror = self._net, self._net.of(RESOLVER), self._net.of(MIRROR)
        self._json_command("resolver", "archives", "--data", data)
        self._json_command("resolver", "register", "--data", data, "--archive-service", UNKNOWN)
        must("resolver", "unregister", "--data", data, "--archive-service", UNKNOWN)
        self._json_command("resolver", "set", "--data", data, "grace_seconds", "0.3")
        self._json_command("resolver", "institution", "--data", mirror, "--name", "A network")
        self._json_command("resolver", "token", "add", "--data", mirror, "n", "--scope", "read")
        self._json_command("resolver", "token", "list", "--data", mirror)
        self._json_command("resolver", "token", "remove", "--data", mirror, "n")
        self._accounts("resolver", mirror, "administrator")
        self._json_command("resolver", "account", "remove", "--data", mirror, "ann")
        exported = must("resolver", "export-registry", "--data", data, net.data / "registry.json")
        key = re.findall(r"\b[0-9a-f]{64}\b", exported)
        self._json["the list of ibi resolver export-registry"] = shape_of_text(
            (net.data / "registry.json").read_text()
        )
        self._json_command(
            "resolver", "import-registry", "--data", mirror, net.data / "registry.json", "--key", key[0]
        )
        for what in ("registered", "setting", "original"):  # the last few of all would depend on the moment
            words = ("resolver", "log", "show", "--data", data, "--what", what)
            self._json_command(*words, also=f"--what {what}")
        self._json_command("resolver", "alerts", "--data", data)
        self._json_command("resolver", "status", "--data", data)
        self._json_command("resolver", "log", "show", "--data", data, "--head", also="--head")
        target = f"/{MOVING}?ibiurl.requireditemstatus=Original"

        def migrated() -> bool:
            net.ask(RESOLVER, "GET", target)
            return bool(ibi("resolver", "log", "show", "--data", data, "--what", "migrated").out)

        until(migrated, "the resolver sees the original at the other Archive")

    def _move(self) -> None:
        """A third Archive applies, is approved, moves, and falls silent."""
        net, data = self._net, self._net.of(RESOLVER)
        net.found_archive(THIRD)
        net.start_archives(THIRD, (THIRD, net.address(THIRD)))
        net.is_ready(THIRD)
        form = {
            "service_ibi": SERVICES[THIRD], "address": net.address(THIRD), "mail": "admin@archive.example",
            "name": "Ann", "hosts": "",
        }  # fmt: skip
        applied = net.ask(
            RESOLVER, "POST", "/-/register", urlencode(form), accept="application/json",
            content_type="application/x-www-form-urlencoded",
        )  # fmt: skip
        assert applied.status == 200, applied
        self._json["POST /-/register"] = shape([applied.json()])
        self._json_command("resolver", "applications", "--data", data)
        must("resolver", "approve", "--data", data, SERVICES[THIRD])
        must(
            "archive",
            "join",
            "--data",
            net.of(THIRD),
            "--resolver",
            net.url(RESOLVER),
            "--key",
            applied.json()["key"],
        )
        net.has_included(3)
        must("resolver", "allow-move", "--data", data, SERVICES[THIRD])
        assert net.stop(THIRD) == 0
        net.ports[THIRD], net.ports["before"] = net.ports["moved"], net.ports[THIRD]
        must("archive", "set", "--data", net.of(THIRD), "--address", net.address(THIRD))
        net.start_archives(THIRD, (THIRD, net.address(THIRD)))
        net.is_ready(THIRD)
        net.has_included(3)
        net.running[THIRD].kill()
        net.running[THIRD].wait()

    def _set_up(self) -> None:
        """Note what a first and a further run of `ibi init` print."""
        first = free_port(2)
        ports = ("--port", first, "--resolver-port", first + 1)
        names = (
            "--domain",
            "127.0.0.1",
            "--resolver-domain",
            "127.0.0.1",
            "--ip",
            "127.0.0.1",
            "--for-trying",
        )
        words = ("init", "--data", self._net.of(SET_UP), "--kind", "both", *names, *ports, "--yes")
        self._json_command(*words)
        self._json_command(*words, "--admin", "maria@archive.example", also="once more")

    def _mint(self) -> Document:
        data = self._net.of(MINT)
        where = ("--data", data, "--host", "mint.archive.example", "--ip", "192.0.2.3", "--for-trying")
        self._json_command("mint", *where, "--count", "2")
        self._json_command("doctor", "--data", data, status=self._doctor(MINT), also="of the mint")
        self._json_command("mint", "token", "add", "--data", data, "n")
        self._json_command("mint", "token", "list", "--data", data)
        self._json_command("mint", "token", "remove", "--data", data, "n")
        self._net.tokens[MINT] = must("mint", "token", "--data", data, "--name", "program").split()[-1]
        self._net.start(
            MINT, "mint", "serve", *where, "--bind", self._net.address(MINT), "--log-format", "json"
        )
        self._net.is_ready(MINT)
        return self._answers(exchanges.at_a_mint())

    def _end(self) -> None:
        """Everything stops; and a crash in the middle of a line of the evidence is found at the next entry."""
        data = self._net.of(RESOLVER)
        for name in (MINT, FIRST, RESOLVER):
            assert self._net.stop(name) == 0, name
        must("resolver", "rotate", "--data", data, SERVICES[SECOND])
        must("resolver", "log", "verify", "--data", data)
        with (data / "evidence.jsonl").open("a") as log:
            log.write('{"number":')
        must("resolver", "set", "--data", data, "grace_seconds", "0.4")
        must("resolver", "log", "verify", "--data", data)

    # ---- what lies in directories

    def _settings(self) -> Document:
        """The files in which operators find settings, accounts and tokens: keys and types."""
        found: Document = {}
        for name in (FIRST, FOUND, RESOLVER, MIRROR, MINT):
            for path in sorted(self._net.of(name).glob("*.toml")):
                found[f"{name}/{path.name}"] = shape([tomllib.loads(path.read_text("utf-8"))])
            for path in sorted(self._net.of(name).glob("*.json")):
                found[f"{name}/{path.name}"] = shape_of_text(path.read_text("utf-8"))
        return found

    def _files(self) -> Document:
        """The names of all files, by the directory that they lie in."""
        found: Document = {}
        for name in (FIRST, RESOLVER, MINT, FOUND, "backups", "restored", "bag"):
            top = self._net.data / name
            paths = {
                self._named(path.relative_to(top).as_posix()) for path in top.rglob("*") if path.is_file()
            }
            found[name] = sorted(path for path in paths if not path.endswith(("-wal", "-shm", "-journal")))
        return found

    def _named(self, path: str) -> str:
        return self._net.tidied(path)


def _evidence(path: Path) -> Document:
    """The kinds of entries, each with its keys."""
    kinds: dict[str, list[object]] = collections.defaultdict(list)
    for line in path.read_text("ascii").splitlines():
        entry = json.loads(line)
        kinds[entry["what"]].append(entry)
    return {what: shape(kinds[what]) for what in sorted(kinds)}


def _logs(paths: Iterable[Path]) -> Document:
    """The keys of what servers write with `--log-format json`, of requests and of events."""
    kinds: dict[str, list[object]] = collections.defaultdict(list)
    for path in sorted(paths):
        for line in path.read_text("ascii").splitlines():
            if not line.startswith("{"):
                continue  # a sentence for people, before `ready`
            event = json.loads(line)
            event.pop("error", None)  # of what went wrong only
            kinds["ibi.access" if event["logger"] == "ibi.access" else "others"].append(event)
    return {kind: shape(kinds[kind]) for kind in sorted(kinds)}


def environment() -> Document:
    """The variables of the environment that the program reads, and what each does to the language of its sentences."""
    read: set[str] = set()
    package = str(Path(ibi_library.__file__).parent)
    plain = os.environ.__class__.__getitem__

    def spy(self: os._Environ[str], key: str) -> str:
        frame = sys._getframe(1)  # `get` of the mapping, or who asks
        for _ in range(2):
            if frame.f_code.co_filename.startswith(package):
                read.add(key)
            frame = frame.f_back or frame
        return plain(self, key)

    found: Document = {}
    for name in LANGUAGES:
        with patch("surface.commands.ENGLISH", {**dict.fromkeys(LANGUAGES, ""), name: "pt_BR.UTF-8"}):
            found[name] = ibi("inspect", "8JMKD3MGP8W/35MML0O").err.splitlines()[0]
    nothing = patch("surface.commands.ENGLISH", dict.fromkeys(LANGUAGES, ""))
    with nothing, patch.object(os.environ.__class__, "__getitem__", spy):
        ibi("inspect", "8JMKD3MGP8W/35MML0O")
        ibi("no command")  # which makes the options of every command
    return found | {"read": sorted(read)}
