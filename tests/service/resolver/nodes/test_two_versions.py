"""A node of a resolver goes on, and starts again, while another runs a version that only adds to their database."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope, Tokens
from ibi.cli import main
from proofs.common.environment import environment
from support.engines.newer_program import newer_program, python_path
from support.engines.postgresql import PostgreSQL
from support.network.up import get
from support.ports import free_port

SERVICE = "J8LNKB5R7W/3FUQHC5"


def run(variables: dict[str, str], *words: object) -> None:
    """Run a command of the program that the variables lead to."""
    subprocess.run([sys.executable, "-m", "ibi", *map(str, words)], check=True, env=variables, timeout=120)


@contextmanager
def served(variables: dict[str, str], data: Path, port: int) -> Iterator[None]:
    """Serve a node with the program that the variables lead to."""
    words = [
        sys.executable,
        "-m",
        "ibi",
        "resolver",
        "serve",
        "--data",
        str(data),
        "--bind",
        f"127.0.0.1:{port}",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            yield
        finally:
            process.terminate()


def until_known(port: int, token: str, service: str) -> None:
    """Wait until a node tells of an Archive."""
    end = time.monotonic() + 30
    path = f"http://127.0.0.1:{port}/-/api/registrations"
    while service.encode() not in get(path, authorization=f"Bearer {token}").body:
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.mark.long
def test_a_resolver_of_two_versions(postgresql: PostgreSQL, tmp_path: Path) -> None:
    url, port, newer_port = postgresql.new_database(), free_port(), free_port()
    old, new = tmp_path / "old", tmp_path / "new"
    this = environment()
    newer = this | {"PYTHONPATH": f"{python_path(newer_program(tmp_path / 'program'))}:{this['PYTHONPATH']}"}
    address = [
        "--address",
        f"127.0.0.1:{port}",
        "--service-ibi",
        SERVICE,
        "--alias",
        f"127.0.0.1:{newer_port}",
    ]
    assert main(["resolver", "init", "--data", str(old), "--store", url, *address]) == 0
    token = Tokens(old).make("t", "2026-11-22T10:00:00Z", [Scope.READ, Scope.ADMIN])
    register = ["resolver", "register", "--archive-service"]

    def version() -> str:
        name = url.rpartition("/")[2]
        return str(postgresql.execute("SELECT version_num FROM resolver_version", name)[0][0])

    with served(this, old, port):
        before = version()
        run(newer, "resolver", "init", "--data", new, "--store", url)
        assert version() > before
        with served(newer, new, newer_port):
            run(this, *register, "one.example/w/2020/01.01.00.00", "--data", old)
            run(newer, *register, "two.example/w/2020/01.01.00.00", "--data", new)
            for each in (port, newer_port):
                until_known(each, token, "one.example/w/2020/01.01.00.00")
                until_known(each, token, "two.example/w/2020/01.01.00.00")
    with served(this, old, port):
        until_known(port, token, "two.example/w/2020/01.01.00.00")
    # A node of the version before can also be made anew.
    run(this, "resolver", "init", "--data", tmp_path / "again", "--store", url)
