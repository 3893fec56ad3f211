"""arklet, which mints and resolves ARKs with Django, as a neighbour in the HTTP benchmarks: from PyPI, with gunicorn.

Its own settings ask for PostgreSQL and open a connection for every request; that is `as it ships`. The other two are
kinder: connections are kept, and in the last one the database is SQLite, in the same process. (Its migrations speak
PostgreSQL only; for SQLite the tables are made from its models.) One worker with four threads was the fastest of five
ways to run gunicorn on one core.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.databases import postgres, postgres_folders
from bench.load import post
from bench.processes import NotHere, NotStarted, Server, run, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path(__file__).parents[1] / ".venv-arklet"
"""The environment of its own that arklet lives in; made once, and not known to git."""

PACKAGES = ("arklet[postgres]==0.2.3", "gunicorn==27.0.1")
WAYS = ("PostgreSQL, as it ships", "PostgreSQL, connections kept", "SQLite, connections kept")
_WORKERS = ("--workers=1", "--worker-class=gthread", "--threads=4", "--keep-alive=60")
_DURABLE = {
    "PostgreSQL": "SHOW fsync; SHOW synchronous_commit; SHOW wal_sync_method",
    "SQLite": "PRAGMA journal_mode; PRAGMA synchronous",
}
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
_NAMES = """import sys, django
django.setup()
from arklet.ark.models import Ark, Naan
naan = Naan.objects.get(naan=12345)
Ark.objects.bulk_create([
    Ark(ark=f"12345/t1{number:07}", naan=naan, shoulder="/t1", assigned_name=f"{number:07}",
        url=f"http://files.example/{number:07}")
    for number in range(int(sys.argv[1]))
], batch_size=500, ignore_conflicts=True)
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


def target_of(number: int) -> str:
    """Where the ARK of this number is resolved, if so many were made."""
    return f"/ark:12345/t1{number:07}"


def environment() -> Path:
    """The Python of the environment with arklet in it, which is made where it is missing. Raises NotHere."""
    python, done = FOLDER / "bin" / "python", FOLDER / " ".join(PACKAGES).replace("/", "_")
    if not done.exists():
        try:
            run([sys.executable, "-m", "venv", "--clear", FOLDER])
            run([python, "-m", "pip", "install", "--quiet", *PACKAGES])
        except NotStarted as error:
            print(error, file=sys.stderr)
            raise NotHere("arklet is not here: it could not be installed from PyPI") from None
        done.touch()
    return python


@contextmanager
def arklets(folder: Path, ways: Sequence[str] = WAYS, names: int = 0) -> Iterator[list[Arklet]]:
    """Every way to run arklet that this machine has the programs for, all running; `folder` is on the disk.

    Each knows so many ARKs. Raises NotHere without arklet.
    """
    python, found = environment(), postgres_folders()
    lite = all(way.startswith("SQLite") for way in ways)
    with ExitStack() as stack:
        database = (
            stack.enter_context(postgres(found[-1], folder / "postgres", "arklet"))
            if found and not lite
            else None
        )
        if database is None and not lite:
            print(
                "\narklet with PostgreSQL is not measured: PostgreSQL is not here (Debian package postgresql)"
            )
        yield [
            stack.enter_context(_arklet(way, python, folder / f"arklet{at}", database, names))
            for at, way in enumerate(ways)
            if database or way.startswith("SQLite")
        ]


@contextmanager
def _arklet(way: str, python: Path, folder: Path, postgres: Server | None, names: int) -> Iterator[Arklet]:
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
    if names:
        run([python, "-c", _NAMES, str(names)], env)
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
