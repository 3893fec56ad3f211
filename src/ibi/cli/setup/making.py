"""Makes what the answers describe: the data directories, the first accounts, the files for systemd and the proxy.

All of it is made in a folder beside its place and moved there at the end, so that a command that is interrupted leaves
nothing half.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ibi.accounts.people import AccountManager, Accounts, Role
from ibi.archive.membership.founding import NewArchiveOptions, create_archive
from ibi.archive.store.data_directory import DataDirectory
from ibi.cli.own_commands import run_quietly
from ibi.cli.setup.answers import ARCHIVE, BOTH, RESOLVER, SETUP, Answers, PlannedService
from ibi.cli.setup.surroundings import STAGING
from ibi.errors import SetupError
from ibi.identifier.dates import TICKS, date_text
from ibi.identifier.generator import is_public_ip
from ibi.minting.machine import this_machine
from ibi.runtime.durable_files import flush_folder, make_folder, replace_file, setup_errors
from ibi.runtime.settings import ArchiveSettings, ResolverSettings, settings_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ibi.errors import IbiError

PROXIES = ("127.0.0.1/32", "::1/128")
"""The proxies of this machine, in the settings of an Archive."""


@dataclass(frozen=True, slots=True)
class MadeService:
    """One service that was made: its data directory, its settings, and the password of its first account."""

    planned: PlannedService
    data: Path
    settings: ArchiveSettings | ResolverSettings
    password: str


@dataclass(frozen=True, slots=True)
class Made:
    """What was made, and warnings for the administrator."""

    services: list[MadeService]
    warnings: list[IbiError]


def make(folder: Path, answers: Answers, files: Mapping[str, str], key: str = "") -> Made:
    """Make all that the answers describe in a folder, which is absent or empty, or nothing. Raises IbiError.

    `files`: as `planning.files_of` makes them; `key`: the registration key of the Archive, "" for a new one.
    """
    with _staging(folder) as staging:
        warnings: list[IbiError] = []
        passwords = {}
        for service in answers.services():
            data = staging / service.folder
            if service.kind == RESOLVER:
                _make_resolver(data, service, answers)
            else:
                noted = _make_archive(data, service, answers, key)
                if answers.kind == BOTH:  # the key stays on this machine, so nothing is to be warned of
                    _register(staging / answers.services()[0].folder, ArchiveSettings.read(data))
                else:
                    warnings += noted
            passwords[service.folder] = _make_account(data, answers.account)
        write_files(staging, files)
        answers.write(staging / SETUP)
        for each in staging.iterdir():  # whatever the umask: the user of the services must get through
            each.chmod(0o755)
        _move(staging, folder)
    made = [
        MadeService(each, folder / each.folder, _settings(folder, each), passwords[each.folder])
        for each in answers.services()
    ]
    return Made(made, warnings)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts into a folder, by their paths below it. Raises SetupError."""
    with setup_errors("{path} cannot be written: {reason}", under=folder):
        for name, text in files.items():
            make_folder((folder / name).parent)
            replace_file(folder / name, text.encode(), 0o644)


@contextmanager
def without_interruption() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM while a few short steps are taken that belong together."""
    held = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Yield an empty folder inside of `folder`, and remove it at the end; also a new `folder` that stays empty.

    Raises SetupError if the folder is set up already, by a command that ran at the same time.
    """
    is_new = not folder.exists()
    with setup_errors("{path} cannot be made: {reason}", under=folder):
        folder.mkdir(parents=True, exist_ok=True)
        if is_new:
            folder.chmod(0o755)
    staging = folder / f"{STAGING}{secrets.token_hex(8)}"
    try:
        with settings_lock(folder):  # two commands in one folder would remove what the other one makes
            if Answers.exists(folder / SETUP):
                raise SetupError("{path} was set up by another command meanwhile", path=folder)
            with setup_errors("{path} cannot be made: {reason}", under=folder):
                for left in folder.glob(f"{STAGING}*"):
                    shutil.rmtree(left)
                staging.mkdir()
            yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # not empty: all was made
                folder.rmdir()


def _move(staging: Path, folder: Path) -> None:
    """Move what was made into its place; the answers come last, because with them the folder counts as set up."""
    moved: list[str] = []
    with setup_errors("{path} cannot be written: {reason}", under=folder), without_interruption():
        try:
            for kind in (ARCHIVE, RESOLVER, SETUP):
                if (staging / kind).exists():
                    (staging / kind).rename(folder / kind)
                    moved.append(kind)
        except OSError:
            for kind in moved:
                (folder / kind).rename(staging / kind)
            raise
        flush_folder(folder)


def _make_resolver(data: Path, service: PlannedService, answers: Answers) -> None:
    private = answers.for_trying or (answers.kind == BOTH and not is_public_ip(answers.ip))
    words = ("--allow-private-archives",) if private else ()
    run_quietly("resolver", "init", "--data", data, "--address", service.address, *words)
    settings = ResolverSettings.read(data)
    replace(settings, admin=answers.admin, public_url=service.public_url).write(data)


def _make_archive(data: Path, service: PlannedService, answers: Answers, key: str) -> list[IbiError]:
    joined = answers.resolver
    if answers.kind == BOTH:
        joined = answers.services()[0].root
    options = NewArchiveOptions(
        address=service.address,
        ip=answers.ip,
        for_trying=answers.for_trying,
        admin=answers.admin,
        resolver=joined,
        key=key or None,
    )
    settings, warnings = create_archive(DataDirectory(data, this_machine()), options)
    proxies = PROXIES if service.is_proxied else ()
    replace(settings, public_url=service.public_url, trusted_proxies=proxies).write(data)
    return warnings


def _register(resolver: Path, archive: ArchiveSettings) -> None:
    who = ("--archive-service", archive.service.main, "--key", archive.key, "--mail", archive.admin)
    run_quietly("resolver", "register", "--data", resolver, *who)


def _make_account(data: Path, name: str) -> str:
    """Make the account of the administrator, and return its password."""
    moment = date_text(time.time_ns() // TICKS * TICKS)
    people = AccountManager(Accounts(data), [Role.ADMINISTRATOR], lambda: moment)
    return people.add(name, Role.ADMINISTRATOR)[1]


def _settings(folder: Path, service: PlannedService) -> ArchiveSettings | ResolverSettings:
    kind = ResolverSettings if service.kind == RESOLVER else ArchiveSettings
    return kind.read(folder / service.folder)
