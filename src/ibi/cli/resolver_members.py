"""`ibi resolver register`, `archives`, `approve` and the like: who may take part, as the administrator decides."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence import Evidence
    from ibi.resolver.mail import Mail
    from ibi.resolver.registration_mail import RegistrationMail
    from ibi.resolver.registry import RegisteredArchive, Registry
    from ibi.settings import ResolverSettings


@dataclass(frozen=True)
class _Desk:
    """What an administrator works with: the registry, what is written down, and the letters that go out."""

    settings: ResolverSettings
    registry: Registry
    evidence: Evidence
    mail: Mail

    def known(self, text: str) -> RegisteredArchive:
        """A registered Archive. Raises ParseError and SetupError."""
        service = parse_ibi(text)
        known = self.registry.entry(service)
        if known is None or known.applied:
            raise SetupError("{ibi} is not registered here", ibi=service)
        return known


@contextmanager
def _desk(data: Path) -> Iterator[_Desk]:
    """The desk of a resolver that was made before. Raises SetupError."""
    from ibi import assembly
    from ibi.resolver.evidence import FILE, Evidence
    from ibi.resolver.mail import Mail
    from ibi.settings import ResolverSettings

    settings = ResolverSettings.read(data)
    registry = assembly.registry(data)
    evidence = Evidence(data / FILE, time.time)
    mail = Mail(settings.smtp, settings.mail_from, settings.address)
    try:
        yield _Desk(settings, registry, evidence, mail)
    finally:
        mail.close()
        evidence.close()
        registry.close()


def register(args: argparse.Namespace) -> int:
    """Register an Archive, by its IBI or from a mail. Raises IbiError."""
    from ibi.resolver.keys import is_weak_key
    from ibi.resolver.mail import is_recipient

    if args.mail and not is_recipient(args.mail):
        raise SetupError("this is not a plain mail address: {text}", text=args.mail)
    read = _from_mail(args) if args.from_mail else None
    service = read.service_ibi if read else parse_ibi(args.archive_service)
    given, name = (read.key, read.name) if read else (args.key, "")
    contact = args.mail or (read.sender if read else "")
    with _desk(args.data) as desk:
        if desk.settings.service.names(service):
            raise SetupError("this is the resolver's own service")
        before = desk.registry.entry(service)
        key = desk.registry.register(service, given, args.url_host, contact, name if contact else "")
        if before is None or before.applied:
            desk.evidence.write("registered", ibi=str(service), by="mail" if read else "command")
            desk.mail.registered(service, contact)
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
    with _desk(args.data) as desk:
        desk.registry.unregister(service)
        desk.evidence.write("unregistered", ibi=str(service), by="command")
    return 0


def archives(args: argparse.Namespace) -> int:
    """List the registered Archives. Raises IbiError."""
    with _desk(args.data) as desk:
        archives = [archive for archive in desk.registry.registered() if not archive.applied]
    if args.json:
        print(json.dumps([_described(archive) for archive in archives], indent=1))
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


def _described(archive: RegisteredArchive) -> dict[str, object]:
    described: dict[str, object] = {
        "service_ibi": str(archive.service_ibi),
        "registered": archive.registered_at,
        "included": archive.included is not None,
        "changed": archive.changed_at,
        "heard": archive.heard_at,
        "url_hosts": list(archive.url_hosts),
        "mail": archive.contact,
        "name": archive.contact_name,
        "confirmed_address": archive.confirmed_address,
        "moving_to": archive.move.address if archive.move else None,
    }
    if archive.included is not None:
        described |= {
            "address": archive.included.address,
            "ip": archive.included.ip,
            "protocol": archive.included.protocol,
            "platform_version": archive.included.platform_version,
            "admin_mail": archive.included.admin_mail,
            "confirmed": archive.included.confirmed,
        }
    return described


def applications(args: argparse.Namespace) -> int:
    """List the Archives that have applied. Raises IbiError."""
    with _desk(args.data) as desk:
        waiting = [archive for archive in desk.registry.registered() if archive.applied]
    if args.json:
        rows = [
            {
                "service_ibi": str(each.service_ibi),
                "applied": each.registered_at,
                "address": each.address,
                "mail": each.contact,
                "name": each.contact_name,
                "url_hosts": list(each.url_hosts),
            }
            for each in waiting
        ]
        print(json.dumps(rows, indent=1))
        return 0
    for each in waiting:
        print(
            f"{each.service_ibi}  {each.address}  {each.contact}  {each.contact_name}  {each.registered_at}"
        )
    return 0


def approve(args: argparse.Namespace) -> int:
    """Register an Archive that has applied. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _desk(args.data) as desk:
        known = desk.registry.entry(service)
        desk.registry.approve(service)
        desk.evidence.write("approved", ibi=str(service), by="command")
        desk.mail.registered(service, known.contact if known else "")
    print(say("{ibi} is registered", ibi=service), file=sys.stderr)
    return 0


def refuse(args: argparse.Namespace) -> int:
    """Forget an application. Raises IbiError."""
    service = parse_ibi(args.archive_service)
    with _desk(args.data) as desk:
        desk.registry.refuse(service)
        desk.evidence.write("unregistered", ibi=str(service), by="command")
    return 0


def rotate(args: argparse.Namespace) -> int:
    """Give an Archive a new key. Raises IbiError."""
    with _desk(args.data) as desk:
        known = desk.known(args.archive_service)
        key = desk.registry.rotate(known.service_ibi)
        desk.evidence.write("rotated", ibi=str(known.service_ibi), by="command")
        desk.mail.rotated(known)
    print(say("the new key of {ibi} is shown only now:", ibi=known.service_ibi), file=sys.stderr)
    print(key)
    return 0


def allow_move(args: argparse.Namespace) -> int:
    """Let an Archive move once. Raises IbiError."""
    with _desk(args.data) as desk:
        known = desk.known(args.archive_service)
        desk.registry.allow_move(known.service_ibi)
    print(say("{ibi} may move once", ibi=known.service_ibi), file=sys.stderr)
    return 0
