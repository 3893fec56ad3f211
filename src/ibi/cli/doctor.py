"""`ibi doctor`: checks a data directory and its surroundings, and says what to do about faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.common import argument, data_option, flag, port, quiet_option, tell
from ibi.cli.progress import Progress
from ibi.errors import SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse

    from ibi.app.doctor import Finding

_WORDS: Final = {
    "ok": "ok",
    "warning": "warning",
    "fault": "fault",
    "not proven": "not proven",
    "settings": "settings",
    "clock": "clock",
    "disk": "disk",
    "minting": "minting",
    "database": "database",
    "evidence": "evidence",
    "network": "network",
    "address": "address",
    "archive": "Archive",
    "resolver": "resolver",
    "certificate": "certificate",
    "files": "files",
}
"""The words for severities and for the things that were checked."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor` to the commands."""
    parser = commands.add_parser(
        "doctor",
        help="see whether a data directory, its clock, disk, names and peers are well",
        description="Checks what can go wrong around a data directory of an Archive, a resolver or a mint, and says "
        "what to do; it leaves nothing behind. A name is proven to lead here when the running service tells what was "
        "written into its directory a moment ago.",
    )
    data_option(parser, "the data directory")
    argument(parser, "--host HOST", "a further host name that must lead here", default="")
    argument(parser, "--port PORT", "where it answers (default: %(default)s)", type=port, default=80)
    argument(parser, "--ip IP", "a further IP address that must lead here", default="")
    argument(parser, "--url URL", "its https address: is the certificate valid?", default="")
    argument(parser, "--tls-cert FILE", "the certificate that it is served with: is it valid?", type=Path)
    flag(parser, "--json", "one JSON document")
    quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the findings; status 1 if one is a fault. Raises SetupError for a directory that is not ours."""
    from ibi.app.doctor import Severity
    from ibi.app.doctor.doctor import Checkup, CheckupOptions
    from ibi.minting.machine import this_machine

    if not args.data.is_dir():
        raise SetupError("{path} does not exist", path=args.data)
    checkup = Checkup(
        args.data, this_machine(), CheckupOptions(args.host, args.port, args.ip, args.url, args.tls_cert)
    )
    with Progress(say("looking at {path}", path=args.data)):
        findings = checkup.findings()
    faults = sum(finding.severity is Severity.FAULT for finding in findings)
    if args.json:
        print(json.dumps({
            "kinds": checkup.kinds,
            "faults": faults,
            "findings": [described(finding) for finding in findings],
        }, ensure_ascii=False, indent=1))  # fmt: skip
    else:
        for finding in findings:
            print(line(finding))
    if faults:
        tell("faults found: {count}", count=faults)
    return 1 if faults else 0


def line(finding: Finding) -> str:
    """Return a finding as one line, in the reader's language."""
    sentence = say(finding.sentence)
    remedy = f" -> {say(finding.remedy)}" if finding.remedy else ""
    words = f"{say(_WORDS[finding.severity]):<11} {say(_WORDS[finding.name]):<14} {sentence}{remedy}"
    return " ".join(words.splitlines())


def described(finding: Finding) -> dict[str, Any]:
    """Return a finding as an object of a JSON document."""
    return {
        "name": finding.name,
        "verdict": finding.severity,
        "sentence": say(finding.sentence),
        "advice": say(finding.remedy) if finding.remedy else None,
    }
