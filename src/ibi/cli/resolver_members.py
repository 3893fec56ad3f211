"""`ibi resolver register`, `archives`, `approve` and the like: who may take part, as the administrator decides."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.identifier.forms import IBI
    from ibi.resolver.registrar import Registrar
    from ibi.resolver.registration_mail import RegistrationMail


@contextmanager
def _registrar(data: Path) -> Iterator[Registrar]:
    """Who decides about the Archives of a resolver that was made before. Raises SetupError."""
    from ibi import assembly
    from ibi.resolver.evidence import FILE, Evidence
    from ibi.resolver.mail import Mail
    from ibi.resolver.registrar import Registrar
    from ibi.settings import ResolverSettings

    settings = ResolverSettings.read(data)
    registry = assembly.registry(data)
    evidence = Evidence(data / FILE, time.time)
    mail = Mail(settings.smtp, settings.mail_from, settings.address, settings.smtp_password_file)
    try:
        yield Registrar(registry, evidence, lambda: mail, settings.service)
    finally:
        mail.close()
        evidence.close()
        registry.close()


def register(args: argparse.Namespace) -> int:
    """Register an Archive, by its IBI or from a mail. Raises IbiError."""
    from ibi.resolver.keys import is_weak_key

    read = _from_mail(args) if args.from_mail else None
    service = read.service_ibi if read else parse_ibi(args.archive_service)
    given, name = (read.key, read.name) if read else (args.key, "")
    contact = args.mail or (read.sender if read else "")
    with _registrar(args.data) as registrar:
        by = "mail" if read else "command"
        key = registrar.register(service, given, args.url_host, contact, name, by=by)
        if given and is_weak_key(key):
            print(
                say("a key of fewer than 20 digits can be guessed; without --key a strong one is made"),
                file=sys.stderr,
            )
        _tell_registered(service, None if given else key, as_json=args.json)
    return 0


def _from_mail(args: argparse.Namespace) -> RegistrationMail:
    """What a mail says, shown to whoever registers it. Raises ParseError and SetupError."""
    from ibi.resolver.registration_mail import LONGEST_MAIL, read_registration

    if args.key:
        raise SetupError("the key is in the mail; --key cannot be given besides")
    try:
        if args.from_mail == "-":
            raw = sys.stdin.buffer.read(LONGEST_MAIL + 1)
        else:
            with Path(args.from_mail).open("rb") as file:
                raw = file.read(LONGEST_MAIL + 1)
    except OSError as error:
        raise SetupError(
            "{path} cannot be read: {reason}", path=args.from_mail, reason=error.strerror
        ) from None
    read = read_registration(raw)
    print(say("the mail names the Archive {ibi}", ibi=read.service_ibi), file=sys.stderr)
    if read.sender or read.subject:
        sentence = "it says it is from {name} <{sender}>, about: {subject}"
        print(say(sentence, name=read.name, sender=read.sender, subject=read.subject), file=sys.stderr)
    return read


def _tell_registered(service: IBI, key: str | None, *, as_json: bool) -> None:
    """Say that an Archive is registered, and its key if we made it."""
    if as_json:
        print(json.dumps({"service_ibi": str(service), **({} if key is None else {"key": key})}))
    elif key is None:
        print(say("{ibi} is registered", ibi=service), file=sys.stderr)
    else:
        print(say("{ibi} is registered; its key is shown only now:", ibi=service), file=sys.stderr)
        print(key)


def unregister(args: argparse.Namespace) -> int:
    """Forget an Archive. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _registrar(args.data) as registrar:
        registrar.unregister(service, "command")
    return 0


def archives(args: argparse.Namespace) -> int:
    """List the registered Archives. Raises IbiError."""
    from ibi.resolver.registrar import archive_facts

    with _registrar(args.data) as registrar:
        archives = registrar.registered()
    if args.json:
        print(json.dumps([archive_facts(archive) for archive in archives], indent=1))
        return 0
    for archive in archives:
        where = archive.included
        state = (
            "not included" if where is None else "included" if where.confirmed else "included, not confirmed"
        )
        print(f"{archive.service_ibi}  {where.address if where else '-'}  {say(state)}")
        if archive.move is not None:
            print("   ", say("it wants to move to {address}: see allow-move", address=archive.move.address))
    return 0


def applications(args: argparse.Namespace) -> int:
    """List the Archives that have applied. Raises IbiError."""
    from ibi.resolver.registrar import application_facts

    with _registrar(args.data) as registrar:
        waiting = registrar.waiting()
    if args.json:
        print(json.dumps([application_facts(each) for each in waiting], indent=1))
        return 0
    for each in waiting:
        print(
            f"{each.service_ibi}  {each.address}  {each.contact}  {each.contact_name}  {each.registered_at}"
        )
    return 0


def approve(args: argparse.Namespace) -> int:
    """Register an Archive that has applied. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _registrar(args.data) as registrar:
        registrar.approve(service, "command")
    print(say("{ibi} is registered", ibi=service), file=sys.stderr)
    return 0


def refuse(args: argparse.Namespace) -> int:
    """Forget an application. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _registrar(args.data) as registrar:
        registrar.refuse(service, "command")
    return 0


def rotate(args: argparse.Namespace) -> int:
    """Give an Archive a new key. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _registrar(args.data) as registrar:
        key = registrar.rotate(service, "command")
        print(say("the new key of {ibi} is shown only now:", ibi=service), file=sys.stderr)
        print(key, flush=True)  # before letters are sent, which may take long and be broken off
    return 0


def allow_move(args: argparse.Namespace) -> int:
    """Let an Archive move once. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _registrar(args.data) as registrar:
        registrar.allow_move(service, "command")
    print(say("{ibi} may move once", ibi=service), file=sys.stderr)
    return 0
