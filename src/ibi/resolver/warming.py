"""Which redirects are made ready for the express lane, and for whom they hold (notes 1 and 2, threat T20).

Ready is a redirect for which nobody had to be asked: every answer that had to do with it was out of memory. It lies
under a key that stands for the settings and the included Archives of the moment, and the target as it was received;
where the reader's language decides, that too. What comes of a change has another key, so it counts at once.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import ibi
from ibi.errors import ParseError
from ibi.exchange import joined_headers
from ibi.identifier.forms import parse_name
from ibi.protocol.messages import read_request
from ibi.protocol.url_list import UrlList
from ibi.resolver import memory_rows
from ibi.resolver.explanation import Statement
from ibi.resolver.gathering import story_of
from ibi.resolver.hops import Hops
from ibi.resolver.memory_rows import Answer
from ibi.resolver.ready import Source
from ibi.resolver.ready_rows import BY_LANGUAGE
from ibi.resolver.visitor import Visitor, client_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from ibi.exchange import Response
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.explanation import Explanation, RoundTold
    from ibi.resolver.knowledge import Knowledge
    from ibi.resolver.registry import IncludedArchive, Registry
    from ibi.resolver.resolution import Redirect
    from ibi.settings import ResolverSettings

_MARK_BYTES: Final = 8
_UNSEEN: Final = -1
_NOBODY: Final = ("0.0.0.0",)  # noqa: S104 - stands where the address of a reader will; his own is never written down


class Moment(NamedTuple):
    """When a resolution began (POSIX seconds), and what stood for settings and Archives then."""

    now: float
    mark: bytes


class Reader:
    """What the headers of a request say of the one who asks, as far as a redirect depends on it.

    `welcome`: whether he is redirected at all; otherwise the application decides what he is told. `origin`: what
    limits count against. `rules` are those by which the headers were read.
    """

    __slots__ = ("addresses", "language", "origin", "rules", "welcome")

    def __init__(self, rules: Rules, headers: Iterable[tuple[bytes, bytes]], peer: str) -> None:
        joined = joined_headers(headers)
        forwarded = joined.get(b"x-forwarded-for", b"").decode("latin-1")
        self.addresses = client_addresses(peer or "127.0.0.1", forwarded, rules.trusted)
        visitor = Visitor("GET", "/", "", joined, self.addresses)
        hops = Hops.read(visitor.header(b"cdn-loop"))
        loops = hops is None or hops.loops(rules.names)
        self.rules = rules
        self.welcome = visitor.names(rules.hosts) and not visitor.only_prefetched and not loops
        self.origin = visitor.origin
        self.language = joined.get(b"accept-language", b"")


class Rules:
    """What holds for readers of the express lane as the settings are at one time.

    `hosts`: under which names it is asked; `names`: its own, by which a loop is known; `trusted`: networks of proxies
    that are believed; `refuses`: whether whoever counts so has to wait.
    """

    def __init__(
        self,
        settings: ResolverSettings,
        registry: Registry,
        knowledge: Knowledge,
        *,
        hosts: frozenset[str],
        trusted: Sequence[IPv4Network | IPv6Network],
        refuses: Callable[[str], bool],
    ) -> None:
        self.open = settings.express and registry.sign is not None
        self._shown = registry.sign.numbers if registry.sign is not None else None
        self.hosts = hosts
        self.names: Collection[str] = settings.service.canonicals
        self.trusted = trusted
        self.refuses = refuses
        self._settings = settings
        self._registry = registry
        self._knowledge = knowledge
        self._archives: Sequence[IncludedArchive] | None = None
        self.seen = _UNSEEN
        """The sign of the registry when it was looked at last."""
        self.by_name: dict[str, IncludedArchive] = {}
        """The included Archives, by the names of their services as they are spelled."""
        self.mark = b""
        """Stands for the settings and the included Archives."""

    def look(self) -> None:
        """See who is included now."""
        sign = self._registry.sign
        self.seen = (
            _UNSEEN if sign is None else sign.shown
        )  # before: whoever comes meanwhile is seen next time
        archives = self._registry.archives()
        if archives is not self._archives:
            self._archives = archives
            self.by_name = {str(archive.service_ibi): archive for archive in archives}
            told = [
                (
                    each.service_ibi.canonical,
                    str(each.service_ibi),
                    each.address,
                    each.confirmed,
                    each.url_hosts,
                )
                for each in archives
            ]
            text = repr((ibi.__version__, self._settings, told))
            self.mark = blake2b(text.encode(), digest_size=_MARK_BYTES).digest()

    def as_seen(self) -> bool:
        """Whether nobody has written to the registry since it was looked at."""
        return self._shown is not None and self._shown[0] == self.seen

    def hold(self) -> bool:
        """Whether there is a lane; if so, they go by the registry as it is now."""
        if not self.open or self._shown is None:
            return False
        if not self.as_seen():
            self.look()
        return True

    # What the application says, kept for the next one who asks

    def moment(self) -> Moment:
        """To be taken before a resolution begins, for `keep`."""
        self.look()
        return Moment(self._knowledge.now(), self.mark)

    def keep(
        self,
        visitor: Visitor,
        outcome: Redirect,
        story: Explanation,
        response: Response,
        since: Moment,
        *,
        by_language: bool,
    ) -> None:
        """Make a redirect ready, if it came of nothing but memory. Returns at once."""
        if not (self.open and outcome.again) or story.made_work:
            return
        self.look()
        target = visitor.target.encode("latin-1")
        if not _is_plain(target) or since.mark != self.mark:
            return
        found = [self._source(told, service, since) for told in story.rounds for service in told.asked]
        sources = [source for source in found if source is not None]
        chosen = outcome.archive.service_ibi
        if len(sources) < len(found) or not _is_said(outcome, sources) or str(chosen) not in self.by_name:
            return
        thanks = b"" if outcome.acknowledgment is None else _thanks(str(chosen), outcome.acknowledgment)
        if thanks is None:
            return
        ready, key = self._knowledge.memory.ready, self.mark + target
        if by_language:
            ready.keep(key, BY_LANGUAGE, sources, b"", b"")
            key += b"\n" + visitor.headers.get(b"accept-language", b"")
        ready.keep(key, story_of(len(story.rounds), hint_of(story)), sources, response.whole(), thanks)

    def _source(self, told: RoundTold, service: str, since: Moment) -> Source | None:
        """The answer of an Archive in one round, if it was kept before that began and still is."""
        archive = self.by_name.get(service)
        if archive is None:
            return None
        asked = f"{parse_name(told.ibi).canonical} {'+'.join(told.verbs)} {told.file_path}"
        canonical = archive.service_ibi.canonical
        kept = self._knowledge.memory.answer(canonical, asked)
        if kept is None or kept.heard > since.now or kept.fresh_until <= since.now:
            return None
        return Source(
            memory_rows.key_of(canonical, asked), Answer(kept.body, kept.heard, kept.fresh_until, 0.0)
        )


def hint_of(story: Explanation) -> str:
    """How the metrics count whom a resolution asked first: "none" was to be preferred, or he was "right" or "wrong"."""
    first = story.rounds[0]
    held = bool(first.said) and isinstance(first.said[0], Statement) and first.said[0].said == "url list"
    return "none" if first.why == "everybody" else "right" if held else "wrong"


def _is_plain(target: bytes) -> bool:
    return target.startswith(b"/") and b"#" not in target and all(0x21 <= byte <= 0x7E for byte in target)  # noqa: PLR2004 - visible ASCII


def _is_said(outcome: Redirect, sources: Sequence[Source]) -> bool:
    """Whether the answer that was chosen is one of these."""
    mine = memory_rows.archive_key(outcome.archive.service_ibi.canonical)
    try:
        return any(
            source.key.startswith(mine) and UrlList.read(source.answer.body) == outcome.answer
            for source in sources
        )
    except ParseError:
        return False


def _thanks(service: str, message: Acknowledgment) -> bytes | None:
    """Whom to thank, and the query that does it; None where that could not be read again.

    The addresses will be those of the reader who is thanked for: nobody's are written down.
    """
    message = replace(message, client_addresses=_NOBODY)
    query = message.query()
    try:
        same = read_request(query) == message
    except ParseError:
        return None
    return f"{service} {query}".encode("ascii") if same else None
