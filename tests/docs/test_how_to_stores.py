"""The sections about stores and nodes are typed, in one language or the other, with a real PostgreSQL and S3 store.

Those of "When one machine is not enough" before its last part (`make composed` types that one), and "Several nodes" of
"Run a resolver". What a page tells between its commands (stop, start, another machine) is done between them.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.engines.postgresql import PostgreSQL, programs
from support.engines.seaweedfs import BUCKET, KEY, SECRET, SeaweedFS
from support.pages.blocks import Block, blocks
from support.pages.runner import SHELL, Shell, language_of, run_block, shell
from support.pages.turns import TREES, in_turn
from support.ports import free_port
from support.style.layers import ROOT

pytestmark = pytest.mark.long

STORES, RESOLVER = PAGES = ("when-one-machine-is-not-enough", "run-a-resolver")
FILES, CATALOGUE, NODES, UPDATING = 1, 2, 3, 4
"""The sections of the first page."""
HOST, PLACE = "archive.example.org", "s3://items/archive.example.org"
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *SHELL)
"""A shell with which all ends that it has started."""
ENGLISH = {"SENHA": "PASSWORD", "BALANCEADOR": "BALANCER", "resolvedor.example.org": "resolver.example.org"}

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the namespace of the shell")


def page_of(tree: str, name: str) -> Path:
    return ROOT / "docs" / tree / "how-to" / f"{name}.md"


def trees(part: str) -> list[str]:
    """The languages in which a part of the pages is typed in this run."""
    return [tree for tree, each in in_turn(("files", "nodes", "resolver")) if each == part]


def examples(page: Path, section: int) -> list[Block]:
    return [block for block in blocks(page) if block.section == section and block.is_run]


def section_of_nodes(page: Path) -> int:
    """The number of the section about nodes of the page about resolvers."""
    (found,) = {block.section for block in blocks(page) if "ibi[postgres]" in block.text}
    return found


class Typist:
    """Types blocks of a page. `replaced`: what the page shows -> what is here instead."""

    def __init__(self, page: Path, at: Shell, folder: Path, replaced: dict[str, str]) -> None:
        self.page, self.at, self.folder, self.replaced = page, at, folder, replaced

    def type(self, block: Block, **more: str) -> None:
        """Type a block; `more`: what else is replaced, such as DIR."""
        list(run_block(self.page, block, self.at, self.folder, self.replaced | more))

    def serve(self, block: Block, data: str, port: int) -> str:
        """Type the block that serves a node; return the process of its shell."""
        shown = {"DIR": data, "--data resolver": f"--data {data}", "0.0.0.0:8080": f"127.0.0.1:{port}"}
        self.type(block, **shown, BALANCER="127.0.0.1", BALANCEADOR="127.0.0.1")
        return self.at.run("echo $!").strip()

    def start(self, data: str, port: int) -> str:
        """Serve an Archive that is no node; return the process of its shell."""
        log = f"{data}-{secrets.token_hex(4)}.log"
        self.at.run(f"{{ ibi archive serve --data {data} --bind 127.0.0.1:{port}\n}} > {log} 2>&1 &")
        process = self.at.run("echo $!").strip()
        self.until(f"grep -q ^ready {log}")
        return process

    def stop(self, *processes: str) -> None:
        """Stop what `serve` or `start` have begun; it must end well."""
        for process in processes:
            self.at.run(f"kill $(cat /proc/{process}/task/{process}/children)\nwait {process}")

    def until(self, command: str) -> None:
        """Repeat a command until it succeeds, for a minute or more."""
        self.at.run(f"for _ in $(seq 300); do {command} && break; sleep 0.2; done\n{command}")

    def deposit(self, data: str, title: str) -> str:
        """Deposit an item with one file, whose text is the title; return the path of the file."""
        self.at.run(f"echo {shlex.quote(title)} > file.txt")
        name = self.at.run(f"ibi archive deposit --data {data} file.txt --title {shlex.quote(title)}").split()
        return f"/col/{name[0]}/doc/file.txt"

    def fetch(self, path: str, port: int, options: str = "-L") -> str:
        """What a reader gets of the Archive who comes through a node."""
        return self.at.run(fetching(path, port, options))


def fetching(path: str, port: int, options: str = "-L") -> str:
    """The command of a reader whose balancer chooses the node at a port."""
    return f"curl -sSf --noproxy '*' {options} --connect-to {HOST}::127.0.0.1:{port} 'http://{HOST}{path}'"


@contextmanager
def typing(page: Path, folder: Path, replaced: dict[str, str]) -> Iterator[Typist]:
    program = Path(sys.executable).parent
    path = f"{program}:{programs()}:{os.environ['PATH']}:/usr/sbin:/sbin"
    environment = {"LANGUAGE": language_of(page), "LC_ALL": "C.UTF-8", "PATH": path}
    # Both are installed here; that there are such parts is a test of its own.
    replaced |= {each[0]: "python -c 'import obstore, psycopg'" for each in installations(page)}
    with shell(folder, environment, NAMESPACE) as at:
        yield Typist(page, at, folder, replaced)


def installations(page: Path) -> Iterator[re.Match[str]]:
    """The commands of a page that install the program, each with its parts."""
    return re.finditer(r"pip install (?:--upgrade )?'ibi\[([a-z0-9,]+)\]'", page.read_text("utf-8"))


def database(made: str) -> str:
    """What a URL has behind the user."""
    return made.partition("@")[2]


def shown_of(seaweedfs: SeaweedFS, prefix: str) -> dict[str, str]:
    """What the first page shows of the S3 store -> what is here instead."""
    return {
        "http://127.0.0.1:8333": seaweedfs.endpoint,
        "AWS_ACCESS_KEY_ID=archive": f"AWS_ACCESS_KEY_ID={KEY}",
        "the-secret": SECRET,
        PLACE: f"s3://{BUCKET}/{prefix}",
    }


def founded(typist: Typist, *words: str) -> dict[str, str]:
    """Make an Archive with two items; the paths of their files -> what these have."""
    founding = f"--address {HOST} --ip 192.0.2.7 --admin maria@example.org --for-trying --resolver ''"
    typist.at.run(f"ibi archive init --data archive {founding} {' '.join(words)}")
    return {typist.deposit("archive", title): f"{title}\n" for title in ("Relatório anual", "Atlas")}


@only_root
@pytest.mark.parametrize("tree", trees("files"))
def test_files_move_into_the_store_while_the_archive_is_served_and_back(
    tree: str, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    page, prefix = page_of(tree, STORES), secrets.token_hex(6)
    variables, served, stopped, proofs, back = examples(page, FILES)
    with typing(page, tmp_path, shown_of(seaweedfs, prefix)) as typist:
        files, port = founded(typist), free_port()
        process = typist.start("archive", port)
        typist.type(variables)
        typist.type(served, DIR="archive")
        files[typist.deposit("archive", "Came meanwhile")] = "Came meanwhile\n"
        typist.stop(process)
        typist.type(stopped, DIR="archive")
        typist.type(proofs, DIR="archive")
        kept = {key.rpartition("/")[2] for key in seaweedfs.keys(prefix) if "/doc/" in key}
        assert kept == {hashlib.sha256(text.encode()).hexdigest() for text in files.values()}
        typist.at.run("rm -r archive/col")
        process = typist.start("archive", port)
        _all_are_fetched(typist, files, port)
        _sent_to_the_store(typist, next(iter(files)), port)
        typist.stop(process)
        typist.type(back, DIR="archive")
    assert {path: (tmp_path / f"archive{path}").read_text() for path in files} == files
    assert "s3:" not in (tmp_path / "archive/archive.toml").read_text()


@only_root
@pytest.mark.parametrize("tree", trees("nodes"))
def test_the_catalogue_moves_into_a_database_and_back_and_the_archive_gets_nodes(
    tree: str, tmp_path: Path, postgresql: PostgreSQL, seaweedfs: SeaweedFS
) -> None:
    page = page_of(tree, STORES)
    shown = shown_of(seaweedfs, secrets.token_hex(6))
    shown["database.example/archive"] = database(postgresql.new_database())
    with typing(page, tmp_path, shown) as typist:
        typist.type(examples(page, FILES)[0])
        files = founded(typist, "--files", shown[PLACE])
        _catalogue(typist, files, tmp_path)
        typist.replaced["database.example/archive"] = database(postgresql.new_database())
        typist.type(examples(page, CATALOGUE)[0], DIR="archive")
        _nodes(typist, files)


def _sent_to_the_store(typist: Typist, path: str, port: int) -> None:
    """By the setting that the page names, which a running Archive follows."""
    typist.at.run("ibi archive set --data archive --files-redirect yes")
    answer = fetching(path, port, "-o /dev/null -w '%{http_code} %{redirect_url}'")
    typist.until(f'[[ $({answer}) == "307 $AWS_ENDPOINT_URL/"* ]]')
    assert typist.fetch(path, port) == "Relatório anual\n"


def _all_are_fetched(typist: Typist, files: dict[str, str], port: int) -> None:
    assert {path: typist.fetch(path, port) for path in files} == files


def _catalogue(typist: Typist, files: dict[str, str], folder: Path) -> None:
    """Move the catalogue and back."""
    there, back = examples(typist.page, CATALOGUE)
    typist.type(there, DIR="archive")
    assert [*tomllib.loads((folder / "archive/archive.toml").read_text())] == ["store"]
    assert len(list((folder / "archive/lost+found").rglob("catalogue.sqlite"))) == 1
    typist.type(back, DIR="archive")
    listed = typist.at.run("ibi archive list --data archive")
    assert all(path.removeprefix("/col/").partition("/doc/")[0] in listed for path in files)


def _nodes(typist: Typist, files: dict[str, str]) -> None:
    """A second node joins; what is deposited at one is found at the other."""
    joining, serving = examples(typist.page, NODES)
    typist.at.run("mkdir second")
    typist.type(joining, DIR="second")
    ports = {"second": free_port(), "archive": free_port()}
    processes = {data: typist.serve(serving, data, port) for data, port in ports.items()}
    for data, other in (("archive", "second"), ("second", "archive")):
        title = f"Marshlands of {data}"
        files[typist.deposit(data, title)] = f"{title}\n"
        _all_are_fetched(typist, files, ports[other])
        search = fetching(f"/-/search?text={data}", ports[other], "-H 'Accept: text/html'")
        typist.until(f"{{ {search} | grep -q '{title}'; }}")
    saving, updating = examples(typist.page, UPDATING)
    typist.type(saving)
    typist.at.run("pg_restore --list archive.dump | grep -q 'TABLE DATA public item '")
    typist.type(updating)
    typist.stop(processes["second"])
    _all_are_fetched(typist, files, ports["archive"])
    processes["second"] = typist.serve(serving, "second", ports["second"])
    typist.at.run("ibi archive set --data second --files-redirect yes")
    path, code = next(iter(files)), "-o /dev/null -w '%{http_code}'"
    for port in ports.values():
        typist.until(f"[[ $({fetching(path, port, code)}) == 307 ]]")
        _all_are_fetched(typist, files, port)
    typist.stop(*processes.values())


@only_root
@pytest.mark.parametrize("tree", trees("resolver"))
def test_a_resolver_gets_nodes_and_one_that_ran_alone_is_moved(
    tree: str, tmp_path: Path, postgresql: PostgreSQL
) -> None:
    page = page_of(tree, RESOLVER)
    first, joining, serving, moving = examples(page, section_of_nodes(page))
    with typing(page, tmp_path, {"db.example.org/resolver": database(postgresql.new_database())}) as typist:
        typist.type(first, **{"--data resolver": "--data first"})
        typist.type(joining, **{"--data resolver": "--data second"})
        ports = {"first": free_port(), "second": free_port()}
        processes = [typist.serve(serving, data, port) for data, port in ports.items()]
        for data, other in (("first", "second"), ("second", "first")):
            typist.at.run(f"ibi resolver set --data {data} admin {data}@example.org")
            typist.until(_about(ports[other], f"{data}@example.org"))
        typist.stop(*processes)
        typist.at.run(
            "ibi resolver init --data alone --address alone.example.org\n"
            "ibi resolver set --data alone admin alone@example.org"
        )
        typist.replaced["db.example.org/resolver"] = database(postgresql.new_database())
        typist.type(moving, **{"--data resolver": "--data alone"})
        typist.type(joining, **{"--data resolver": "--data third"})
        process = typist.serve(serving, "third", ports["first"])
        typist.until(_about(ports["first"], "alone@example.org"))
        typist.stop(process)


def _about(port: int, wanted: str) -> str:
    return f"{{ curl -sSf --noproxy '*' http://127.0.0.1:{port}/-/about | grep -q {wanted}; }}"


def test_both_languages_have_the_same_commands() -> None:
    def typed(tree: str) -> list[str]:
        first, second = page_of(tree, STORES), page_of(tree, RESOLVER)
        sections = [*((first, each) for each in (FILES, CATALOGUE, NODES, UPDATING))]
        sections.append((second, section_of_nodes(second)))
        found = []
        for page, section in sections:
            for block in examples(page, section):
                lines = block.text.splitlines()
                found += [each for each in lines if block.language == "sh" or each.startswith("$ ")]
        return found

    portuguese = "\n".join(typed("pt-BR"))
    for here, there in ENGLISH.items():
        portuguese = portuguese.replace(here, there)
    assert portuguese.splitlines() == typed("en")
    assert len(typed("en")) > 15


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("tree", TREES)
def test_the_parts_that_are_installed_are_those_of_the_program(tree: str, name: str) -> None:
    parts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {part for each in installations(page_of(tree, name)) for part in each[1].split(",")}
    assert named - parts.keys() == set()
    assert "postgres" in named
