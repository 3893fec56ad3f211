"""`ibi archive init`: make an Archive, from options or from the answers to four questions."""

from __future__ import annotations

import json
import shlex
import socket
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import directory
from ibi.cli.asking import ask, has_terminal, own_address, usable
from ibi.cli.common import argument, flag, port, remark, remark_line, tell, tell_line
from ibi.cli.doctor import described, line
from ibi.errors import SetupError
from ibi.identifier.forms import parse_ibi
from ibi.runtime.environment import environment_store
from ibi.runtime.i18n import say
from ibi.runtime.settings.rules import check_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.app.doctor import Finding
    from ibi.cli.common import CommandGroup
    from ibi.runtime.settings import ArchiveSettings

_STORE: Final = "IBI_ARCHIVE_STORE"


def add(actions: CommandGroup) -> None:
    """Add the subcommand."""
    text = "make an Archive, or a node of one; asks what it must know at a terminal"
    parser = actions.add("init", text, _init)
    argument(parser, "--address HOST[:PORT]", "where it will answer")
    argument(parser, "--ip", "the IP address of its server")
    argument(parser, "--service-ibi IBI", "the IBI of its service; without it, one is minted")
    argument(parser, "--mint-host H", "the host name in new labels (default: that of the address)")
    argument(parser, "--mint-port P", "and its port (default: that of the address)", type=port)
    argument(parser, "--mint-ip A", "the IP address in new IBIps (default: --ip)")
    argument(parser, "--mint-ip-port P", "and its port (default: 800)", type=port, default=800)
    text = "seconds between labels at the finest: 60, 1, 0.1, … or auto (default)"
    argument(parser, "--granularity S", text, default="auto")
    flag(parser, "--for-trying", "mint under names and addresses that no one owns")
    argument(parser, "--admin MAIL", "the administrator's mail address", default="")
    argument(parser, "--platform-software IBI", "the IBI of the software, if it has one")
    argument(parser, "--resolver URL", "the base URL of the resolver to take part in", default="")
    text = (
        "the database of PostgreSQL that nodes share; an Archive in it is joined; with a password, better in "
        "IBI_ARCHIVE_STORE"
    )
    argument(parser, "--store URL", text, default="")
    argument(parser, "--files PLACE", "an S3 store for the files of items, s3://bucket/prefix", default="")
    argument(parser, "--key", "the registration key; without it, a strong one is made")
    flag(parser, "--json", "one JSON document")
    parser.set_defaults(wrong=parser.error)


def _init(args: argparse.Namespace) -> int:
    from ibi.app.doctor.doctor import Checkup, CheckupOptions
    from ibi.archive.membership.founding import NewArchiveOptions, create_archive
    from ibi.minting.machine import this_machine

    if (args.store or environment_store(_STORE)) and (settings := _joined(args)) is not None:
        _tell_of_node(args, settings)
        return 0
    if args.address is None or args.ip is None:
        if not has_terminal():
            # Reported as argparse reports wrong usage, with status 2.
            args.wrong(say("--address and --ip are required where there is no terminal"))
        _ask_questions(args)
    options = NewArchiveOptions(**{each.name: getattr(args, each.name) for each in fields(NewArchiveOptions)})
    settings, warnings = create_archive(directory(args), options)
    for warning in warnings:
        tell(warning)
    # No service runs in the new directory yet, so the doctor must not report that as a fault.
    findings = Checkup(args.data, this_machine(), CheckupOptions()).findings(served=False)
    print_registration(settings, settings.key, as_json=args.json, findings=findings)
    if not args.json:
        _tell_findings(args, findings)
    return 0


def _joined(args: argparse.Namespace) -> ArchiveSettings | None:
    """Make the data directory a node of the Archive in the store; return its settings, or None if it has none yet."""
    from ibi.archive.store.postgresql.nodes import check_joining, founded, join

    named = environment_store(_STORE) or ""
    url: str = args.store or named
    if named and url != named:
        raise SetupError("{name} is decided by {variable} in the environment", name="store", variable=_STORE)
    check_store("--store", url)
    directory(args).check_new()
    settings = founded(args.data, url)
    if settings is not None:
        check_joining(settings, parse_ibi(args.service_ibi) if args.service_ibi else None)
        join(args.data, url)
    return settings


def _tell_of_node(args: argparse.Namespace, settings: ArchiveSettings) -> None:
    base = f"http://{settings.address}/{settings.service.main}"
    if args.json:
        service = settings.service
        print(json.dumps({"service_ibi": str(service.main), "service": str(service), "base_url": base}))
        return
    print(base)
    if args.address and args.address != settings.address:
        sentence = "the store holds the Archive at {address}: this is a node of it"
        tell(sentence, address=settings.address)
    command = f"ibi archive serve --data {shlex.quote(str(args.data))} --bind HOST:PORT"
    remark("Start it with: {command}", command=command)


def _ask_questions(args: argparse.Namespace) -> None:
    """Ask those of the four questions that no option has answered."""
    from ibi.archive.membership.founding import AnswerChecks

    check = AnswerChecks(
        mints_host=not (args.mint_host or args.service_ibi),
        mints_ip=not (args.mint_ip or args.service_ibi),
        for_trying=args.for_trying,
    )
    tell("Press Enter to accept the value in brackets.")
    if args.address is None:
        question = "Where will the Archive answer (host, or host:port)?"
        args.address = ask(say(question), usable(check.address, socket.getfqdn()), check.address)
    if args.ip is None:
        args.ip = ask(say("What is the IP address of its server?"), usable(check.ip, own_address()), check.ip)
    if not args.admin:
        host = args.address.rpartition(":")[0] or args.address
        question = "What is the administrator's mail address?"
        args.admin = ask(say(question), usable(check.admin, f"admin@{host}"), check.admin)
    if not args.resolver:
        question = "Which resolver does it take part in (http://host; empty: none yet)?"
        args.resolver = ask(say(question), "", check.resolver)


def print_registration(
    settings: ArchiveSettings, key: str, *, as_json: bool, findings: Sequence[Finding] | None = None
) -> None:
    """Print the command for the resolver's administrator and the registration mail of REG-01."""
    from ibi.archive.membership.founding import MAIL_SUBJECT, mail_text, register_command

    command, text = register_command(settings.service, key), mail_text(settings.service, key)
    if as_json:
        value: dict[str, object] = {
            "service_ibi": str(settings.service.main),
            "service": str(settings.service),
            "base_url": f"http://{settings.address}/{settings.service.main}",
            "key": key,
            "register": command,
            "mail": {"subject": MAIL_SUBJECT, "text": text},
        }
        if findings is not None:
            value["findings"] = [described(finding) for finding in findings]
        print(json.dumps(value))
        return
    remark("The administrator of the resolver registers this Archive with:")
    print(command)
    remark("or receives the request by mail:")
    print(f"Subject: {MAIL_SUBJECT}\n\n{text}", end="", flush=True)


def _tell_findings(args: argparse.Namespace, findings: Sequence[Finding]) -> None:
    from ibi.app.doctor import Severity

    remark("The checkup found:")
    for finding in findings:
        print_line = remark_line if finding.severity is Severity.OK else tell_line
        print_line(f"  {line(finding)}")
    if any(finding.severity is Severity.FAULT for finding in findings):
        tell("the Archive was created; correct the faults, and check again with: ibi doctor")
    command = f"ibi archive serve --data {shlex.quote(str(args.data))} --bind HOST:PORT"
    remark("Start it with: {command}", command=command)
