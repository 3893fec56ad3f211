"""`ibi resolver register`, `archives`, `approve` and the like, and signed lists of a resolver's Archives."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ibi.api.fields import read_texts
from ibi.cli.common import argument, flag, remark, tell
from ibi.cli.operations import add_operation, fields_of, result_of, tell_note
from ibi.cli.progress import Progress
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.resolver.operations import evidence, registrations
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.i18n import printable, say
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from ibi.api.operations import Operation
    from ibi.cli.common import CommandGroup
    from ibi.resolver.members.registration_mail import RegistrationMail
    from ibi.resolver.operations.context import ResolverContext


def add(actions: CommandGroup) -> None:
    """Add the subcommands that decide about Archives."""
    register = actions.add("register", "register an Archive", _register)
    who = register.add_mutually_exclusive_group(required=True)
    argument(who, "--archive-service IBI", "the IBI of the Archive's service")
    text = "read IBI and key from a registration mail or its text; - is the standard input"
    argument(who, "--from-mail FILE", text)
    argument(register, "--key", "its registration key; without it, a strong one is made and printed once")
    argument(register, "--mail ADDRESS", "the mail address of its administrator", default="")
    argument(register, "--title TITLE", "what readers call it, until it says so itself", default="")
    text = "what they call it in Portuguese, if it differs"
    argument(register, "--title-pt TITLE", text, default="")
    text = "redirects to its items lead to these hosts only; several may be given"
    argument(register, "--url-host HOST", text, nargs="+", action="extend", default=[])
    flag(register, "--json", "one JSON document")
    forget = registrations.FORGET
    unregister = actions.add(forget.name, forget.summary, partial(_decide, forget))
    text = "the IBI of the Archive's service"
    argument(unregister, "--archive-service IBI", text, dest="ibi", required=True)
    for parser in (
        actions.add("archives", "list the registered Archives", _archives),
        actions.add("applications", "list the Archives that have applied", _applications),
    ):
        flag(parser, "--json", "one JSON document")
    status = actions.add(
        "status", "tell how the Archives are, as the running resolver has seen them", _status
    )
    argument(status, "--resolver URL", "its root URL (default: http:// and the address of its settings)")
    flag(status, "--json", "one JSON document")
    decisions: tuple[Operation[ResolverContext, Any], ...] = (
        registrations.APPROVE,
        registrations.REFUSE,
        registrations.ROTATE,
        registrations.ALLOW_MOVE,
        evidence.SETTLE,
    )
    for operation in decisions:
        add_operation(actions, operation, partial(_decide, operation))


@contextmanager
def _acting(data: Path) -> Iterator[ResolverContext]:
    """Yield the context of decisions about the Archives of an existing resolver. Raises SetupError."""
    from ibi.app.resolver import open_registry
    from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
    from ibi.resolver.evidence.reading import OriginalsAlerts
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.members.registrar import Registrar
    from ibi.resolver.operations.context import ResolverContext
    from ibi.runtime.settings.institution import Institution

    settings = ResolverSettings.read(data)
    with (
        closing(open_registry(data)) as registry,
        closing(Evidence(data / EVIDENCE_FILE, time.time)) as log,
        closing(
            MailSender(
                settings.smtp,
                settings.mail_from,
                settings.address,
                settings.smtp_password_file,
                partial(Institution.of, data),
            )
        ) as mail,
    ):
        registrar = Registrar(registry, log, lambda: mail, settings.service)
        yield ResolverContext(
            who="command", say=say, noted=tell_note, data=data, registrar=registrar, evidence=log,
            alerts=OriginalsAlerts(data / EVIDENCE_FILE), status=_not_running,
        )  # fmt: skip


def _not_running() -> NoReturn:
    raise SetupError("only the running resolver knows how its Archives are")


def _register(args: argparse.Namespace) -> int:
    from ibi.resolver.registry.keys import is_weak_key

    read = _from_mail(args) if args.from_mail else None
    given = (read.key if read else args.key) or ""
    texts = {
        "ibi": [str(read.service_ibi) if read else args.archive_service], "key": [given],
        "mail": [args.mail or (read.sender if read else "")],
        "name": [read.name if read else ""], "title": [args.title],
        "title_pt": [args.title_pt], "url_hosts": args.url_host,
    }  # fmt: skip
    fields = read_texts(registrations.RegisterFields, texts)
    with _acting(args.data) as context:
        context.who = "mail" if read else "command"
        registered = registrations.register(context, fields)
        service = registered["service_ibi"]
        if given and is_weak_key(given):
            tell("a key of fewer than 20 digits can be guessed; without --key a strong one is made")
        # Print before mail is sent, which may take long and be interrupted: the key is shown only now.
        if args.json:
            print(json.dumps(registered), flush=True)
        elif given:
            remark("{ibi} is registered", ibi=service)
        else:
            remark("{ibi} is registered; its key is shown only now:", ibi=service)
            print(registered["key"], flush=True)
    return 0


def _from_mail(args: argparse.Namespace) -> RegistrationMail:
    """Read a registration mail, and print it for the administrator. Raises ParseError and SetupError."""
    from ibi.resolver.members.registration_mail import LONGEST_MAIL, read_registration

    if args.key:
        raise SetupError("the key is in the mail; --key cannot be given besides")
    with setup_errors("{path} cannot be read: {reason}", path=args.from_mail):
        # One byte more than the longest mail is enough to see that a mail is too long (T10: huge answers).
        if args.from_mail == "-":
            raw = sys.stdin.buffer.read(LONGEST_MAIL + 1)
        else:
            with Path(args.from_mail).open("rb") as file:
                raw = file.read(LONGEST_MAIL + 1)
    read = read_registration(raw)
    remark("the mail names the Archive {ibi}", ibi=read.service_ibi)
    if read.sender or read.subject:
        sentence = "it says it is from {name} <{sender}>, about: {subject}"
        remark(sentence, name=read.name, sender=read.sender, subject=read.subject)
    return read


def _archives(args: argparse.Namespace) -> int:
    from ibi.resolver.members.registrar import archive_facts

    with _acting(args.data) as context:
        archives = context.registrar.registered()
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


def _status(args: argparse.Namespace) -> int:
    from ibi.cli.resolve import resolver_at
    from ibi.client.answers import members_of, refusal_of

    with resolver_at(args.resolver or ResolverSettings.read(args.data).root) as resolver:
        reply = resolver.ask("GET", "/-/status", "application/json" if args.json else "text/plain")
    if args.json:
        print(json.dumps(members_of(reply, resolver.host).all, indent=1))
        return 0
    if reply.status != HTTPStatus.OK:
        raise refusal_of(reply, resolver.host)
    # Names of Archives, and reasons why they are not asked, come from strangers (T14: injected text).
    print(printable(reply.body.decode("utf-8", "replace").rstrip()))
    return 0


def _applications(args: argparse.Namespace) -> int:
    from ibi.resolver.members.registrar import application_facts

    with _acting(args.data) as context:
        waiting = context.registrar.waiting()
    if args.json:
        print(json.dumps([application_facts(each) for each in waiting], indent=1))
        return 0
    for each in waiting:
        print(
            f"{each.service_ibi}  {each.address}  {each.contact}  {each.contact_name}  {each.registered_at}"
        )
    return 0


def _decide(decision: Operation[ResolverContext, Any], args: argparse.Namespace) -> int:
    fields = fields_of(args, decision.fields)
    with _acting(args.data) as context:
        decided = result_of(decision, context, fields)
        service = parse_ibi(fields.ibi)
        if decision is registrations.APPROVE:
            remark("{ibi} is registered", ibi=service)
        elif decision is registrations.ALLOW_MOVE:
            remark("{ibi} may move once", ibi=service)
        elif decision is evidence.SETTLE:
            remark("the alerts about {ibi} are settled", ibi=service)
        elif decision is registrations.ROTATE:
            remark("the new key of {ibi} is shown only now:", ibi=service)
            # Print before mail is sent, which may take long and be interrupted.
            print(decided["key"], flush=True)
    return 0


def add_lists(actions: CommandGroup) -> None:
    """Add `export-registry` and `import-registry`."""
    export = actions.add("export-registry", "write the signed list of the included Archives", _export)
    argument(export, "file FILE", "where to write it; - is the standard output, and then no key is printed")
    take = actions.add("import-registry", "ask the Archives of another resolver too", _import)
    argument(take, "list LIST", "the list: a file, its URL, or the root URL of a resolver", nargs="?")
    text = "its key: 64 digits, as it tells it at /-/about"
    argument(take, "--key PUBLICKEY", text, required=True)
    flag(take, "--forget", "ask none of the Archives that came with its lists any more")
    flag(take, "--json", "one JSON document")


def _export(args: argparse.Namespace) -> int:
    from ibi.app.resolver import open_registry
    from ibi.resolver.registry.published_list import Publisher
    from ibi.runtime.signing import signer

    settings = ResolverSettings.read(args.data)
    with closing(open_registry(args.data)) as registry:
        made = signer(args.data)
        text = Publisher(registry.listed, settings.service, settings.address, lambda: made, time.time).text()
    if args.file == "-":
        sys.stdout.buffer.write(text)
        return 0
    Path(args.file).write_bytes(text)
    remark("the list is in {path}, signed with this key:", path=args.file)
    print(made.public)
    return 0


def _import(args: argparse.Namespace) -> int:
    from ibi.app.resolver import open_registry
    from ibi.resolver.registry.mirror import apply_list
    from ibi.resolver.registry.published_list import RegistryList, read_list
    from ibi.resolver.service import host_ports

    settings = ResolverSettings.read(args.data)
    if args.forget == (args.list is not None):
        raise SetupError("give a list to import, or --forget")
    # People copy the key by hand from a page or a mail.
    key = args.key.strip().lower()
    with closing(open_registry(args.data)) as registry:
        if args.forget:
            found = RegistryList("", registry.mirrored_at(key), ())
        else:
            own = host_ports(settings.addresses)
            with Progress(say("reading the list")):
                found = read_list(_text(args.list), key, time.time(), own, settings.service)
        done = apply_list(registry, found, key)
        if args.forget:
            registry.forget_mirrored(key)
    counts = {
        "added": done.added,
        "changed": done.changed,
        "gone": done.gone,
        "registered_here": done.elsewhere,
        "left_out": found.left_out,
    }
    if args.json:
        print(json.dumps({"resolver": found.resolver, "issued": found.issued, **counts}))
        return 0
    sentence = "Archives: {added} new, {changed} changed, {gone} gone"
    print(say(sentence, added=done.added, changed=done.changed, gone=done.gone))
    if done.elsewhere:
        print(say("known here already, and left as they are: {count}", count=done.elsewhere))
    if found.left_out:
        print(say("left out, because they cannot be queried from here: {count}", count=found.left_out))
    return 0


def _text(source: str) -> bytes:
    """Return the bytes of the signed list, from a URL or a file. Raises PeerError, SetupError."""
    from ibi.resolver.registry.published_list import LONGEST_LIST

    if source.lower().startswith(("http://", "https://")):
        return asyncio.run(_fetched(source))
    with setup_errors("{path} cannot be read: {reason}", path=source), Path(source).open("rb") as file:
        return file.read(LONGEST_LIST + 1)


async def _fetched(url: str) -> bytes:
    from ibi.http.client import AddressPolicy
    from ibi.http.client.download import Downloads
    from ibi.resolver.registry.mirror import fetch_list

    # Any address is allowed, because the administrator of this resolver gives the URL.
    async with Downloads(AddressPolicy(allow_private=True)) as downloads:
        return await fetch_list(downloads, url)
