"""`ibi resolver register`, `archives`, `approve` and the like, and the signed lists that resolvers exchange."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import ForbiddenAddress, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ibi.http.client import HostPort
    from ibi.identifier.forms import IBI
    from ibi.resolver.members.registrar import Registrar
    from ibi.resolver.members.registration_mail import RegistrationMail
    from ibi.resolver.registry.mirror import MirrorChanges
    from ibi.resolver.registry.published_list import RegistryList


@contextmanager
def _registrar(data: Path) -> Iterator[Registrar]:
    """Who decides about the Archives of a resolver that was made before. Raises SetupError."""
    from ibi import app
    from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.members.registrar import Registrar
    from ibi.runtime.settings import ResolverSettings

    settings = ResolverSettings.read(data)
    registry = app.registry(data)
    evidence = Evidence(data / EVIDENCE_FILE, time.time)
    mail = MailSender(settings.smtp, settings.mail_from, settings.address, settings.smtp_password_file)
    try:
        yield Registrar(registry, evidence, lambda: mail, settings.service)
    finally:
        mail.close()
        evidence.close()
        registry.close()


def register(args: argparse.Namespace) -> int:
    """Register an Archive, by its IBI or from a mail. Raises IbiError."""
    from ibi.resolver.registry.keys import is_weak_key

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
    """What a mail says, shown to the administrator. Raises ParseError and SetupError."""
    from ibi.resolver.members.registration_mail import LONGEST_MAIL, read_registration

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
    from ibi.resolver.members.registrar import archive_facts

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
    from ibi.resolver.members.registrar import application_facts

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


def add_parser(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export-registry` and `import-registry` to the subcommands of `resolver`."""
    export = actions.add_parser("export-registry", help="write the signed list of the included Archives")
    _add_data(export)
    export.add_argument("file", metavar="FILE", help="where to write it; - is the standard output")
    export.set_defaults(run=_export)
    take = actions.add_parser("import-registry", help="ask the Archives of another resolver too")
    _add_data(take)
    take.add_argument(
        "list",
        nargs="?",
        metavar="LIST",
        help="a file, its URL, or the root URL of the resolver",
    )
    take.add_argument(
        "--key", required=True, metavar="PUBLICKEY", help="its key: 64 digits, as it tells it at /-/about"
    )
    take.add_argument(
        "--forget", action="store_true", help="ask none of the Archives that came with its lists any more"
    )
    take.add_argument("--json", action="store_true", help="one JSON document")
    take.set_defaults(run=_import)


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the resolver's data directory"
    )


def _export(args: argparse.Namespace) -> int:
    from ibi import app
    from ibi.resolver.registry.published_list import Publisher
    from ibi.runtime.settings import ResolverSettings
    from ibi.runtime.signing import signer

    settings = ResolverSettings.read(args.data)
    registry = app.registry(args.data)
    try:
        made = signer(args.data)
        text = Publisher(registry.listed, settings.service, settings.address, lambda: made, time.time).text()
    finally:
        registry.close()
    if args.file == "-":
        sys.stdout.buffer.write(text)
        return 0
    Path(args.file).write_bytes(text)
    print(say("the list is in {path}, signed with this key:", path=args.file), file=sys.stderr)
    print(made.public)
    return 0


def _import(args: argparse.Namespace) -> int:
    from ibi import app
    from ibi.resolver.registry.mirror import apply_list
    from ibi.resolver.registry.published_list import RegistryList, read_list
    from ibi.runtime.settings import ResolverSettings

    settings = ResolverSettings.read(args.data)
    if args.forget == (args.list is not None):
        raise SetupError("give a list to be taken, or --forget")
    key = args.key.strip().lower()
    registry = app.registry(args.data)
    try:
        if args.forget:
            found = RegistryList("", registry.mirrored_at(key), ())
        else:
            own = _host_ports((settings.address, *settings.aliases))
            found = read_list(_text(args.list), key, time.time(), own)
        done = apply_list(registry, found, key)
    finally:
        registry.close()
    _tell(args, found, done)
    return 0


def _tell(args: argparse.Namespace, found: RegistryList, done: MirrorChanges) -> None:
    counts = {
        "added": done.added,
        "changed": done.changed,
        "gone": done.gone,
        "registered_here": done.elsewhere,
        "left_out": found.left_out,
    }
    if args.json:
        print(json.dumps({"resolver": found.resolver, "issued": found.issued, **counts}))
        return
    sentence = "Archives: {added} new, {changed} changed, {gone} gone"
    print(say(sentence, added=done.added, changed=done.changed, gone=done.gone))
    if done.elsewhere:
        print(say("known here already, and left as they are: {count}", count=done.elsewhere))
    if found.left_out:
        print(say("left out, because they cannot be asked from here: {count}", count=found.left_out))


def _text(source: str) -> bytes:
    """The list as it was signed. Raises PeerError, SetupError."""
    from ibi.resolver.registry.published_list import LONGEST_LIST

    if source.lower().startswith(("http://", "https://")):
        return asyncio.run(_fetched(source))
    try:
        with Path(source).open("rb") as file:
            return file.read(LONGEST_LIST + 1)
    except OSError as error:
        raise SetupError("{path} cannot be read: {reason}", path=source, reason=error.strerror) from None


async def _fetched(url: str) -> bytes:
    from ibi.http.client import AddressPolicy
    from ibi.http.client.download import Downloads
    from ibi.resolver.registry.mirror import fetch_list

    # The administrator of this resolver gives the URL, so it may be at any address.
    async with Downloads(AddressPolicy(allow_private=True)) as downloads:
        return await fetch_list(downloads, url)


def _host_ports(addresses: Iterable[str]) -> list[HostPort]:
    from ibi.http.client import HostPort

    found = []
    for address in addresses:
        try:
            found.append(HostPort.parse(address))
        except ForbiddenAddress:
            continue  # no Archive is there either
    return found
