"""arklet, a minter of ARKs made with Django, as a neighbour in the HTTP benchmark: from PyPI, served by gunicorn.

Its own settings ask for PostgreSQL and open a connection for every request; that is `as it ships`. The other two are
kinder: connections are kept, and in the last one the database is SQLite, in the same process. (Its migrations speak
PostgreSQL only; for SQLite the tables are made from its models.) One worker with four threads was the fastest of five
ways to run gunicorn on one core.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.load import post
from bench.processes import Server, run, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("arklet[postgres]==0.2.3", "gunicorn==27.0.1")
WAYS = ("PostgreSQL, as it ships", "PostgreSQL, connections kept", "SQLite, connections kept")
_WORKERS = ("--workers=1", "--worker-class=gthread", "--threads=4", "--keep-alive=60")
_DURABLE = {
    "PostgreSQL": "SHOW fsync; SHOW synchronous_commit; SHOW wal_sync_method",
    "SQLite": "PRAGMA journal_mode; PRAGMA synchronous",
}
_POSTGRES_READY = re.compile("database system is ready to accept connections")
_SETTINGS = """from arklet.entrypoints.settings import *
if {kept}:
    DATABASES["default"]["CONN_MAX_AGE"] = None
if {file!r}:
    MIGRATION_MODULES = {{"ark": None}}
    DATABASES["default"] = {{
        "ENGINE": "django.db.backends.sqlite3", "NAME": {file!r}, "CONN_MAX_AGE": None,
        "OPTIONS": {{"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", "timeout": 60}},
    }}
"""
_KEY = """import sys, django
django.setup()
from arklet.ark.models import APIKey, Naan
naan, _ = Naan.objects.get_or_create(naan=12345, name="bench", description="", url="https://example.org")
print(APIKey.objects.create_key(naan, sys.argv[1]))
"""
_ASK = """import sys, django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for question in sys.argv[1].split(";"):
        cursor.execute(question)
        print(question.split()[1] + "=" + str(cursor.fetchone()[0]))
"""


@dataclass(frozen=True)
class Arklet:
    """An arklet that runs: its processes, the request for one ARK, and what its database says of durability."""

    name: str
    web: Server
    servers: tuple[Server, ...]
    request: bytes
    durability: str


def environment(folder: Path) -> Path:
    """A new virtual environment with arklet in it, from PyPI; returns its Python."""
    run([sys.executable, "-m", "venv", folder])
    run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES])
    return folder / "bin" / "python"


@contextmanager
def arklets(python: Path, folder: Path) -> Iterator[list[Arklet]]:
    """Every way to run arklet that this machine has the programs for, all running; `folder` is on the disk."""
    with ExitStack() as stack:
        programs = _programs()
        postgres = stack.enter_context(_postgres(programs, folder / "postgres")) if programs else None
        yield [
            stack.enter_context(_arklet(way, python, folder / f"arklet{at}", postgres))
            for at, way in enumerate(WAYS)
            if postgres or way.startswith("SQLite")
        ]


@contextmanager
def _arklet(way: str, python: Path, folder: Path, postgres: Server | None) -> Iterator[Arklet]:
    folder.mkdir()
    lite = way.startswith("SQLite")
    settings = _SETTINGS.format(kept="kept" in way, file=str(folder / "arks.sqlite") if lite else "")
    (folder / "bench_settings.py").write_text(settings)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(folder),
        "DJANGO_SETTINGS_MODULE": "bench_settings",
        "ARKLET_POSTGRES_HOST": str(folder.parent / "postgres"),
        "ARKLET_POSTGRES_NAME": "postgres",
    }
    run([python, "-m", "django", "migrate", "--run-syncdb"], env)
    words = run([python, "-c", _KEY, way], env)
    durability = run([python, "-c", _ASK, _DURABLE["SQLite" if lite else "PostgreSQL"]], env)
    command: list[str | Path] = [
        python,
        "-m",
        "gunicorn",
        *_WORKERS,
        "--bind=127.0.0.1:0",
        "arklet.entrypoints.wsgi",
    ]
    with serving(command, folder / "log", env=env) as web:
        request = post("/mint", b'{"naan":12345,"shoulder":"/t1"}', f"Bearer {words.strip()}")
        servers = (web,) if lite or postgres is None else (web, postgres)
        yield Arklet(way, web, servers, request, ", ".join(durability.split()))


def _programs() -> Path | None:
    """Where PostgreSQL's programs are; Debian keeps them out of the way."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(found).parent if found else debian[-1].parent if debian else None


@contextmanager
def _postgres(programs: Path, folder: Path) -> Iterator[Server]:
    """A new PostgreSQL with its own defaults, reached by a socket in `folder`; never run by root."""
    folder.mkdir()
    user = None
    if os.geteuid() == 0:
        user = "postgres" if "postgres" in {one.pw_name for one in pwd.getpwall()} else "nobody"
        shutil.chown(folder, user)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    run([programs / "initdb", "-D", folder / "data", "-U", "arklet", "-A", "trust", "-E", "UTF8"], env, user)
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    command: list[str | Path] = [programs / "postgres", "-D", folder / "data", *options]
    with serving(command, folder.parent / "postgres.log", _POSTGRES_READY, env, user) as server:
        yield server
