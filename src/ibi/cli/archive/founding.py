"""`ibi archive init`: make an Archive, from options or from the answers to four questions."""

from __future__ import annotations

import json
import shlex
import socket
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import ask, directory, is_interactive, tell
from ibi.cli.arguments import port
from ibi.errors import IbiError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.app.doctor import Finding
    from ibi.cli.archive.common import Actions
    from ibi.runtime.settings import ArchiveSettings

# A documentation address (RFC 5737): connecting a datagram socket sends nothing, and shows the address of the way out.
_SOMEWHERE: Final = ("203.0.113.1", 9)


def add(actions: Actions) -> None:
    """Add the subcommand."""
    text = "make an Archive; asks what it must know at a terminal"
    parser = actions.add("init", text, _init)
    parser.add_argument("--address", metavar="HOST[:PORT]", help="where it will answer")
    parser.add_argument("--ip", help="the IP address of its server")
    parser.add_argument(
        "--service-ibi", metavar="IBI", help="the IBI of its service; without it, one is minted"
    )
    parser.add_argument(
        "--mint-host", metavar="H", help="the host name in new labels (default: that of the address)"
    )
    parser.add_argument(
        "--mint-port", type=port, metavar="P", help="and its port (default: that of the address)"
    )
    parser.add_argument("--mint-ip", metavar="A", help="the IP address in new IBIps (default: --ip)")
    parser.add_argument(
        "--mint-ip-port", type=port, default=800, metavar="P", help="and its port (default: 800)"
    )
    parser.add_argument(
        "--granularity",
        default="auto",
        metavar="S",
        help="seconds between labels: 60, 1, 0.1, … or auto (default)",
    )
    parser.add_argument(
        "--for-trying", action="store_true", help="mint under names and addresses that nobody owns"
    )
    parser.add_argument("--admin", default="", metavar="MAIL", help="the administrator's mail address")
    parser.add_argument("--platform-software", metavar="IBI", help="the IBI of the software, if it has one")
    parser.add_argument(
        "--resolver", default="", metavar="URL", help="the root of the resolver to take part in"
    )
    parser.add_argument("--key", help="the registration key; without it, a strong one is made")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(wrong=parser.error)


def _init(args: argparse.Namespace) -> int:
    from ibi.archive.membership.founding import NewArchiveOptions, create_archive

    if args.address is None or args.ip is None:
        if not is_interactive():
            args.wrong(say("--address and --ip must be given where there is no terminal to ask at"))
        _ask(args)
    options = NewArchiveOptions(
        address=args.address,
        ip=args.ip,
        service_ibi=args.service_ibi,
        mint_host=args.mint_host,
        mint_port=args.mint_port,
        mint_ip=args.mint_ip,
        mint_ip_port=args.mint_ip_port,
        granularity=args.granularity,
        for_trying=args.for_trying,
        admin=args.admin,
        platform_software=args.platform_software,
        resolver=args.resolver,
        key=args.key,
    )
    settings, warnings = create_archive(directory(args), options)
    for warning in warnings:
        tell(say(warning))
    findings = _check_up(args.data)
    print_registration(settings, settings.key, as_json=args.json, findings=findings)
    if not args.json:
        _tell_findings(args, findings)
    return 0


def _ask(args: argparse.Namespace) -> None:
    """Ask the four questions, except those that options answer."""
    from ibi.archive.membership.founding import AnswerChecks

    check = AnswerChecks(
        mints_host=not (args.mint_host or args.service_ibi),
        mints_ip=not (args.mint_ip or args.service_ibi),
        for_trying=args.for_trying,
    )
    tell(say("An empty answer takes what stands in brackets."))
    if args.address is None:
        question = say("Where will the Archive answer (host, or host:port)?")
        args.address = ask(question, _usable(check.address, socket.getfqdn()), check.address)
    if args.ip is None:
        question = say("What is the IP address of its server?")
        args.ip = ask(question, _usable(check.ip, _own_address()), check.ip)
    if not args.admin:
        host = args.address.rpartition(":")[0] or args.address
        question = say("What is the administrator's mail address?")
        args.admin = ask(question, _usable(check.admin, f"admin@{host}"), check.admin)
    if not args.resolver:
        question = say("Which resolver does it take part in (http://host; empty: none yet)?")
        args.resolver = ask(question, "", check.resolver)


def _usable(check: Callable[[str], str], proposal: str) -> str:
    """Return a proposal that would be accepted, otherwise ""."""
    try:
        return check(proposal)
    except IbiError:
        return ""


def _own_address() -> str:
    """Return the address from which this machine reaches the internet, "" if it does not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def print_registration(
    settings: ArchiveSettings, key: str, *, as_json: bool, findings: Sequence[Finding] | None = None
) -> None:
    """Print what a resolver's administrator needs: the command, and the mail of REG-01."""
    from ibi.archive.membership.founding import MAIL_SUBJECT, mail_text, register_command
    from ibi.cli.doctor import described

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
    tell(say("The administrator of the resolver registers this Archive with:"))
    print(command)
    tell(say("or is asked for it by mail:"))
    print(f"Subject: {MAIL_SUBJECT}\n\n{text}", end="", flush=True)


def _check_up(data: Path) -> list[Finding]:
    """Run a checkup of the new directory, before anything runs in it."""
    from ibi.app.doctor.doctor import Checkup, CheckupOptions
    from ibi.minting.machine import this_machine

    return Checkup(data, this_machine(), CheckupOptions()).findings(served=False)


def _tell_findings(args: argparse.Namespace, findings: Sequence[Finding]) -> None:
    from ibi.app.doctor import Severity
    from ibi.cli.doctor import line

    tell(say("The doctor looked at it:"))
    for finding in findings:
        tell(f"  {line(finding)}")
    faults = sum(finding.severity is Severity.FAULT for finding in findings)
    if faults:
        tell(say("the Archive is made; mend what is at fault, and look again with: ibi doctor"))
    command = f"ibi archive serve --data {shlex.quote(str(args.data))} --bind HOST:PORT"
    tell(say("Start it with: {command}", command=command))
