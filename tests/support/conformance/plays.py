"""Plays: conversations written down as text (conformance/scenarios/README.md describes the format), read into values.

Reading knows nothing of resolvers or sockets. `stage` performs what is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.conformance.play_words import PlayError, Word, Words, statements
from support.http_answers import LIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICIES = ("strict", "hardened")
_BEHAVIOURS = {"SILENT": "silence", "RESETS": "reset"}


@dataclass(frozen=True)
class Introduction:
    """`ARCHIVE name [AT address] [SERVICE ibi] [BOUND TO host]`."""

    name: str
    address: str
    service: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class ArchiveLine:
    """What an Archive does: to one question, to every other one (`ibi` None), or when it gets an acknowledgment."""

    archive: str
    ibi: str | None = None
    verbs: tuple[str, ...] = ()
    path: str = ""
    after: float = 0.0
    drip: float = 0.0
    lie: str | None = None
    absent: bool = False
    acknowledged: bool = False
    pairs: dict[str, Word] = field(default_factory=dict)


@dataclass(frozen=True)
class User:
    """`USER target [LANGUAGE ranges] [FROM addresses] [METHOD method] [VIA name]`."""

    target: str
    language: str = ""
    addresses: tuple[str, ...] = ("192.0.2.1",)
    method: str = "GET"
    via: str = ""


@dataclass
class Expectation:
    """What must have come of the last USER; a field that is None is not looked at."""

    policies: tuple[str, ...] = POLICIES
    redirect: str | None = None
    alert: str | None = None
    status: int | None = None
    rounds: int | None = None
    queries: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    acknowledged: str | None = None
    saying: dict[str, str] = field(default_factory=dict)
    about: frozenset[str] | None = None
    silent: frozenset[str] | None = None
    within: float | None = None
    not_before: float | None = None
    as_before: bool = False
    never_sent: frozenset[str] = frozenset()


Act = ArchiveLine | User | Expectation


@dataclass
class Play:
    """A whole play: who is on stage, and what happens in which order."""

    title: str
    name: str
    proves: tuple[str, ...] = ()
    policies: tuple[str, ...] = POLICIES
    resolver: str = "urlib.net"
    archives: dict[str, Introduction] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)


def read_play(path: Path) -> Play:
    """Read a file. Raises PlayError with the file and the statement at fault."""
    play = Play("", path.stem)
    for statement in statements(path.read_text(encoding="utf-8")):
        words = Words(statement)
        try:
            keyword = words.take()
            _STATEMENTS.get(keyword, _unknown)(play, words)
        except (IndexError, ValueError) as error:
            problem = "it ends too early" if isinstance(error, IndexError) else str(error)
            raise PlayError(f"{path.name}: {problem}: {statement}") from None
    if not play.title or not any(isinstance(act, Expectation) for act in play.acts):
        raise PlayError(f"{path.name}: a play has a title and expects something")
    return play


def _unknown(_: Play, words: Words) -> None:
    raise PlayError(f"this is no statement, before {words.rest()!r}")


def _play(play: Play, words: Words) -> None:
    play.title = words.rest()


def _proves(play: Play, words: Words) -> None:
    play.proves = words.while_like(r"[A-Z]+-\d+")
    if words:
        raise PlayError("requirement numbers look like RES-04")


def _under(play: Play, words: Words) -> None:
    play.policies = (_policy(words),)


def _policy(words: Words) -> str:
    policy = words.take()
    if policy not in POLICIES:
        raise PlayError("a policy is strict or hardened")
    return policy


def _resolver(play: Play, words: Words) -> None:
    if not words.next_is("AT"):
        raise PlayError("RESOLVER AT address")
    play.resolver = words.take()


def _archive(play: Play, words: Words) -> None:
    name = words.take()
    if name not in play.archives:
        play.archives[name] = Introduction(name, f"{name}.example", f"example/{name}/2020/01.01.00.00", ())
    known = play.archives[name]
    if words.next_is("AT"):
        known = Introduction(name, words.take(), known.service, known.hosts)
    if words.next_is("SERVICE"):
        known = Introduction(name, known.address, words.take(), known.hosts)
    if words.next_is("BOUND"):
        if not words.next_is("TO"):
            raise PlayError("BOUND TO hosts")
        known = Introduction(name, known.address, known.service, words.names())
    play.archives[name] = known
    if words:
        play.acts.append(_line(known, words))


def _line(archive: Introduction, words: Words) -> ArchiveLine:
    name = archive.name
    if words.next_is("ABSENT"):
        return ArchiveLine(name, absent=True)
    if words.next_is("THANKED"):
        lie, after = _manner(words)
        return ArchiveLine(name, acknowledged=True, lie=lie, after=after)
    if not words.next_is("ANSWERS"):
        lie, after = _manner(words)
        return ArchiveLine(name, lie=lie, after=after)
    return _answer(archive, words)


def _answer(archive: Introduction, words: Words) -> ArchiveLine:
    """`ANSWERS ibi`, clauses in any order, then the pairs."""
    ibi, path, lie = words.take(), "", None
    verbs: tuple[str, ...] = ()
    after = drip = 0.0
    bare = False
    while words:
        if words.next_is("VERBS"):
            verbs = words.while_like(r"Get.*")
        elif words.next_is("PATH"):
            path = words.take()
        elif words.next_is("AFTER"):
            after = words.milliseconds()
        elif words.next_is("DRIPPING"):
            drip = words.milliseconds()
        elif words.next_is("LYING"):
            lie = _lie(words)
        elif words.next_is("BARE"):
            bare = True
        else:
            break
    pairs = words.pairs()
    return ArchiveLine(
        archive.name,
        ibi,
        verbs,
        path,
        after,
        drip,
        lie,
        pairs=pairs if bare else _filled(archive, ibi, pairs),
    )


def _manner(words: Words) -> tuple[str | None, float]:
    """`SILENT`, `RESETS`, `LIES kind` or nothing at all, perhaps `AFTER n ms`: the lie and the seconds."""
    lie = None
    if words.next_is("LIES"):
        lie = _lie(words)
    else:
        for keyword, meaning in _BEHAVIOURS.items():
            if words.next_is(keyword):
                lie = meaning
    after = words.milliseconds() if words.next_is("AFTER") else 0.0
    if words or not (lie or after):
        raise PlayError(
            "an Archive ANSWERS, is SILENT or ABSENT, RESETS, LIES, or answers nothing AFTER a while"
        )
    return lie, after


def _lie(words: Words) -> str:
    lie = words.take()
    if lie not in LIES:
        raise PlayError(f"nobody knows the lie {lie}")
    return lie


def _filled(archive: Introduction, ibi: str, pairs: dict[str, Word]) -> dict[str, Word]:
    """What an honest Archive says besides what the play tells of (README: "What is filled in")."""
    full: dict[str, Word] = {
        "archiveaddress": archive.address,
        "ibi": (_form(ibi), ibi),
        "ibi.archiveservice": (_form(archive.service), archive.service),
        "ibi.platformsoftware": (),
    }
    qualifiers = [name[len("url") :] for name in pairs if name == "url" or name.startswith("url.")]
    for qualifier in qualifiers:
        metadata = re.search(r"\.metadata(\([^()]*\))?$", qualifier) is not None
        full[f"contenttype{qualifier}"] = "Metadata" if metadata else "Data"
        full[f"state{qualifier}"] = "Original"
        full[f"timestamp{qualifier}"] = "2021-01-01T00:00:00Z"
    if qualifiers:
        full["urlkey"] = "1234567890-1234567890"
    full |= pairs
    return {name: value for name, value in full.items() if value != "NONE"}


def _form(ibi: str) -> str:
    """Which of the two forms an IBI has: only repository names have four parts."""
    return "rep" if ibi.count("/") == 3 else "ibip"


def _user(play: Play, words: Words) -> None:
    user = {"target": words.take()}
    addresses: tuple[str, ...] = ("192.0.2.1",)
    while words:
        if words.next_is("LANGUAGE"):
            user["language"] = words.take()
        elif words.next_is("FROM"):
            addresses = words.names()
        elif words.next_is("METHOD"):
            user["method"] = words.take()
        elif words.next_is("VIA"):
            user["via"] = words.take()
        else:
            raise PlayError(f"no user has {words.take()}")
    play.acts.append(User(addresses=addresses, **user))


def _expect(play: Play, words: Words) -> None:
    expected = Expectation(policies=play.policies)
    while words:
        keyword = words.take()
        if keyword not in _CLAUSES:
            raise PlayError(f"nobody expects {keyword}")
        _CLAUSES[keyword](expected, words)
    play.acts.append(expected)


def _alert(expected: Expectation, words: Words) -> None:
    expected.alert = words.take()
    if words.next_is("ABOUT"):
        expected.about = frozenset(words.names())


def _queries(expected: Expectation, words: Words) -> None:
    expected.queries.append((words.take(), words.while_like(r"Get.*")))


def _acknowledged(expected: Expectation, words: Words) -> None:
    expected.acknowledged = words.take()
    while words.next_is("SAYING"):
        name, value = words.take(), words.take_any()
        expected.saying[name] = value if isinstance(value, str) else " ".join(value)


def _never(expected: Expectation, words: Words) -> None:
    if not words.next_is("TOLD"):
        raise PlayError("NEVER TOLD what")
    kept = set()
    more = True
    while more:
        more = words.next_is("language,")
        if more or words.next_is("language"):
            kept.add("language")
        elif words.next_is("required"):
            more = words.next_is("state,")
            if not more and not words.next_is("state"):
                raise PlayError("the secret is called: required state")
            kept.add("required state")
        else:
            raise PlayError("the secrets are language and required state")
    expected.never_sent = frozenset(kept)


def _not_before(expected: Expectation, words: Words) -> None:
    if not words.next_is("BEFORE"):
        raise PlayError("NOT BEFORE n ms")
    expected.not_before = words.milliseconds()


def _as_before(expected: Expectation, words: Words) -> None:
    if not (words.next_is("AS") and words.next_is("BEFORE")):
        raise PlayError("TOLD AS BEFORE")
    expected.as_before = True


def _set(name: str, read: Callable[[Words], object]) -> Callable[[Expectation, Words], None]:
    return lambda expected, words: setattr(expected, name, read(words))


_CLAUSES: dict[str, Callable[[Expectation, Words], None]] = {
    "UNDER": _set("policies", lambda words: (_policy(words),)),
    "REDIRECT": _set("redirect", Words.take),
    "ALERT": _alert,
    "STATUS": _set("status", lambda words: int(words.take())),
    "ROUNDS": _set("rounds", lambda words: int(words.take())),
    "ASKED": _queries,
    "ACKNOWLEDGED": _acknowledged,
    "SILENT": _set("silent", lambda words: frozenset(words.names())),
    "WITHIN": _set("within", Words.milliseconds),
    "NOT": _not_before,
    "TOLD": _as_before,
    "NEVER": _never,
}

_STATEMENTS: dict[str, Callable[[Play, Words], None]] = {
    "PLAY": _play,
    "PROVES": _proves,
    "UNDER": _under,
    "RESOLVER": _resolver,
    "ARCHIVE": _archive,
    "USER": _user,
    "EXPECT": _expect,
}
