"""A resolver's own affairs: its evidence, how it judges, and settings that are weak (threats T03, T21, T37, T42)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.checkup.finding import Finding, Verdict
from ibi.errors import IbiError, SetupError
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.protocol.messages import split_hostport
from ibi.resolver.evidence import FILE, Evidence
from ibi.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EVIDENCE: Final = "evidence"
_SETTINGS: Final = "settings"
_PATIENCE: Final = 15.0  # seconds that a reader waits before he goes away
_MANY: Final = 1000.0  # resolutions a second of one reader that are no reader's any more


def check_evidence(data: Path) -> Iterator[Finding]:
    """Whether the log of what happened is as it was written."""
    path = data / FILE
    if not path.exists():
        yield Finding(_EVIDENCE, Verdict.OK, IbiError("nothing was written into {path} yet", path=path))
        return
    try:
        found = Evidence(path, lambda: 0.0).verify()  # nothing is written, so no moment is needed
    except SetupError as error:
        yield Finding(_EVIDENCE, Verdict.FAULT, error, IbiError("run this as the user of the service"))
        return
    if found.fault is not None:
        sentence = IbiError("{path}: {reason}", path=path, reason=found.fault)
        advice = IbiError("keep a copy of {path} aside, and find out who changed it", path=path)
        yield Finding(_EVIDENCE, Verdict.FAULT, sentence, advice)
        return
    sentence = IbiError(
        "{path} has {count} entries, all as they were written", path=path, count=found.entries
    )
    yield Finding(_EVIDENCE, Verdict.OK, sentence)
    if found.damage:
        sentence = IbiError(
            "{path} tells of damage found earlier: {count} times", path=path, count=found.damage
        )
        yield Finding(_EVIDENCE, Verdict.WARNING, sentence, IbiError("look for the entries `damage` in it"))


def check_policy(data: Path) -> Iterator[Finding]:
    """How answers are judged, and settings that are allowed and weak."""
    try:
        settings = ResolverSettings.read(data)
    except SetupError:
        return  # what cannot be read is another finding
    if settings.policy == "strict":
        sentence = IbiError("answers are judged by the letter of the standard, without its safeguards")
        yield _weak(sentence, 'policy = "hardened"')
    else:
        yield Finding(_SETTINGS, Verdict.OK, IbiError("the policy is {policy}", policy=settings.policy))
    if settings.allow_private_archives and _is_worldly(settings.address):
        sentence = IbiError(
            "it can be reached by everybody, and asks Archives at addresses that are not public"
        )
        yield _weak(sentence, "allow_private_archives = false")
    if settings.overall_seconds > _PATIENCE:
        sentence = IbiError("readers may wait for {seconds:g} s", seconds=settings.overall_seconds)
        yield _weak(sentence, "overall_seconds = 5.0")
    if settings.archive_seconds > settings.overall_seconds:
        sentence = IbiError("one Archive may take longer to answer than a whole resolution")
        yield _weak(sentence, "archive_seconds = 3.0")
    if settings.request_rate > _MANY:
        sentence = IbiError(
            "one reader may have Archives asked {rate:g} times a second", rate=settings.request_rate
        )
        yield _weak(sentence, "request_rate = 20.0")
    if not settings.admin:
        sentence = IbiError("alerts do not tell readers whom to write to")
        yield _weak(sentence, 'admin = "..."')
    if settings.smtp and not settings.mail_from:
        yield _weak(IbiError("no mail is sent: nobody is named as its sender"), 'mail_from = "..."')


def _weak(sentence: IbiError, better: str) -> Finding:
    advice = IbiError("in {file}: {setting}", file=ResolverSettings.FILE, setting=better)
    return Finding(_SETTINGS, Verdict.WARNING, sentence, advice)


def _is_worldly(address: str) -> bool:
    """Whether an address can lead anybody in the world to somebody."""
    host = split_hostport(address)[0].strip("[]")
    try:
        return is_public_ip(host)
    except ValueError:
        return "." in host and host.rpartition(".")[2] not in TRIAL_DOMAINS
