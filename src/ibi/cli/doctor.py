"""`ibi doctor`: checks a data directory and its surroundings, and says what to do about faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.common import argument, data_option, flag, port, quiet_option, remark, tell
from ibi.cli.progress import Progress
from ibi.errors import IbiError, SetupError
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
        "what to do; it changes nothing without --fix. A name is proven to lead here when the running service tells "
        "what was written into its directory a moment ago.",
    )
    data_option(parser, "the data directory")
    argument(parser, "--host HOST", "a further host name that must lead here", default="")
    argument(parser, "--port PORT", "where it answers (default: %(default)s)", type=port, default=80)
    argument(parser, "--ip IP", "a further IP address that must lead here", default="")
    argument(parser, "--url URL", "its https address: is the certificate valid?", default="")
    argument(parser, "--tls-cert FILE", "the certificate that it is served with: is it valid?", type=Path)
    flag(parser, "--fix", "repair what can be repaired without a risk; items are never touched")
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
        fixed: list[IbiError] = []
        # Twice, because what root repairs may have to be given to the user of the service.
        for _ in range(2 if args.fix else 0):
            if done := [_fixed(finding) for finding in findings if finding.fix is not None]:
                fixed += done
                findings = checkup.findings()
    faults = sum(finding.severity is Severity.FAULT for finding in findings)
    if args.json:
        print(json.dumps({
            "kinds": checkup.kinds,
            "faults": faults,
            "fixed": [say(sentence) for sentence in fixed],
            "findings": [described(finding) for finding in findings],
        }, ensure_ascii=False, indent=1))  # fmt: skip
    else:
        for sentence in fixed:
            print(say("fixed: {what}", what=sentence))
        for finding in findings:
            print(line(finding))
        if (left := sum(finding.fix is not None for finding in findings)) and not args.fix:
            remark("findings that --fix can repair: {count}", count=left)
    if faults:
        tell("faults found: {count}", count=faults)
    return 1 if faults else 0


def _fixed(finding: Finding) -> IbiError:
    """Repair a finding, and return what was done, or why it was not."""
    assert finding.fix is not None  # noqa: S101 - the caller has looked
    try:
        return finding.fix()
    except (IbiError, OSError) as error:
        reason = error if isinstance(error, IbiError) else error.strerror or str(error)
        return IbiError("nothing of: {finding} ({reason})", finding=finding.sentence, reason=reason)


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
        "fixable": finding.fix is not None,
    }
