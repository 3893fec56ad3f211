"""An Archive that lies in every word it says: lists that are nearly true, bytes that are none, HTTP that is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from proofs.common import numbered
from proofs.common.lies import TRANSPORTS
from proofs.fuzz import corpus, grammar
from proofs.fuzz.making import Maker, as_bytes
from support.http_answers import answer, chunked
from support.scripted_archive import Behaviour, ScriptedServer

if TYPE_CHECKING:
    import random

ITEMS: Final = (
    corpus.REP,
    corpus.IBIP,
    "a.example/b/2010/01.01.00.00",
    "LK47B6W/362SFKH",
    "sid.inpe.br/x/2010/01.01.00.00",
)
"""The items that it tells of."""

CANARY: Final = "x-canary"
"""A tag that no page may ever have."""

_QUALIFIERS: Final = (
    "",
    "",
    "",
    ".lastedition",
    ".translation(pt)",
    ".translation",
    ".metadata",
    ".metadata(oai_dc)",
    ".lastedition.translation(en)",
)
_WORDS: Final = re.compile(rb"[^\s{}]+")
_CHUNK_HEAD: Final = re.compile(rb"\r\n[0-9a-fA-F]+[^\r\n]*\r\n")


class SentTexts:
    """All texts ever sent to a resolver, to check that no reader is sent to a URL that none of them has."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._garbled: list[bytes] = []

    def say(self, body: bytes, raw: bytes) -> None:
        """A body is said, in these bytes of HTTP."""
        self._words |= {word.decode("latin-1") for word in _WORDS.findall(body)}
        if body not in raw:
            self._garbled.append(_CHUNK_HEAD.sub(b"", raw) + b" " + raw)

    def garble(self, raw: bytes) -> None:
        """Keep a text that may be read in several ways."""
        self._garbled.append(_CHUNK_HEAD.sub(b"", raw) + b" " + raw)

    def has(self, url: str) -> bool:
        """Whether a URL was said."""
        return url in self._words or any(url.encode("latin-1") in raw for raw in self._garbled)


class Liar(ScriptedServer):
    """One of them, listening at an address of its own. `redirects`: whether a redirect by HTTP counts as said."""

    def __init__(
        self, number: int, chance: random.Random, texts: SentTexts, port: int = 0, *, redirects: bool = False
    ) -> None:
        super().__init__(self._reply, numbered.ip(number), port)
        self._redirects = redirects
        self._number = number
        self._chance = chance
        self._texts = texts
        self._maker = Maker(chance, corpus.plays(), "pairs", wide=False)
        self.answers = 0

    def _reply(self, head: bytes) -> Behaviour | None:
        raw = self._answer(head.split(b" ", 2)[1].decode("latin-1"))
        self.answers += 1
        if self._chance.random() < 0.01:
            return None  # it says nothing at all
        return Behaviour(pieces=self._pieces(raw), closes=self._chance.random() < 0.4)

    def _pieces(self, raw: bytes) -> list[bytes]:
        cuts = sorted(
            self._chance.randint(0, len(raw)) for _ in range(self._chance.choice((0, 0, 0, 1, 3, 20)))
        )
        return [raw[at:end] for at, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    def _answer(self, target: str) -> bytes:
        """The bytes that are sent."""
        chance = self._chance
        query = {name: values[0] for name, values in parse_qs(target.partition("?")[2]).items()}
        body = self._body(query)
        raw = self._in_http(body)
        if chance.random() < 0.05:
            raw = as_bytes(self._maker.spoilt(raw.decode("latin-1")))
        self._texts.say(body, raw)
        if self._redirects:
            self._texts.garble(raw)
        return raw

    def _in_http(self, body: bytes) -> bytes:
        chance = self._chance
        lines = [f"{name}: {grammar.expand(rule, chance)[:200]}" for name, rule in self._headers()]
        lines = [
            line.replace("\r", "").replace("\n", "").encode("ascii", "replace").decode() for line in lines
        ]
        way = chance.random()
        if way < 0.75:
            return answer(body, *lines)
        if way < 0.82:
            return chunked(body, *lines)
        if way < 0.86:
            size = max(1, chance.choice((1, 7, 100)))
            chunks = b"".join(
                b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
                for at in range(0, len(body), size)
            )
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        if way < 0.89:
            return answer(
                body, *(["X: " + "y" * chance.choice((1, 100, 4000))] * chance.choice((1, 60, 140)))
            )
        if way < 0.94:
            status = chance.choice(
                (
                    "302 Found",
                    "404 Not Found",
                    "410 Gone",
                    "503 Busy",
                    "508 Loop",
                    "304 Not Modified",
                    "999 X",
                )
            )
            place = chance.choice(
                (
                    f"http://a{self._number}.example/there",
                    f"http://{numbered.ADDRESS}/x",
                    grammar.expand("url", chance)[:300],
                )
            )
            kind = chance.choice(("text/plain", "application/problem+json", "text/html"))
            return answer(
                body,
                f"Location: {place}".replace("\r", "").replace("\n", "").encode("ascii", "replace").decode(),
                status=status,
                kind=kind,
            )
        return chance.choice(TRANSPORTS)(body)

    def _headers(self) -> list[tuple[str, str]]:
        rules = (
            ("Cache-Control", "control"),
            ("ETag", "tag"),
            ("Retry-After", "dd"),
            ("Date", "httpdate"),
            ("X", "word"),
        )
        return self._chance.sample(rules, self._chance.choice((0, 0, 1, 2)))

    def _body(self, query: dict[str, str]) -> bytes:
        chance = self._chance
        subject = query.get("servicesubject", "")
        way = chance.random()
        if way < 0.08:
            return as_bytes(self._maker.text())
        if way < 0.12:
            return as_bytes(grammar.expand("reply", chance))
        if subject == "inclusionConfirmationRequest":
            return b"confirmation yes"
        if subject == "acknowledgment":
            return b"notice {acknowledgment received}"
        if subject != "urlRequest":
            return as_bytes(grammar.expand(chance.choice(("reply", "json", "holdings")), chance))
        pairs = self._pairs(query.get("parsedibiurl.ibi", ITEMS[0]))
        for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2, 4))):
            pairs = self._lie(pairs)
        body = "\r\n".join(f"{name} {value}" for name, value in pairs)
        if chance.random() < 0.08:
            body = self._maker.spoilt(body)
        return as_bytes(body)

    def _pairs(self, ibi: str) -> list[tuple[str, str]]:
        """A true list about an item, of so many relations."""
        chance = self._chance
        number = self._number
        pairs = [
            ("archiveaddress", numbered.host(number)),
            ("ibi", f"{{{_form(ibi)}}}"),
            ("ibi.archiveservice", f"{{rep {numbered.service(number)}}}"),
            ("urlkey", f"{chance.randrange(10**10):010}-{chance.randrange(10**20):020}"),
            ("timestamp", "2014-01-02T17:23:57Z"),
        ]
        for qualifier in dict.fromkeys(chance.choices(_QUALIFIERS, k=chance.choice((1, 1, 2, 4)))):
            other = ibi if not qualifier else chance.choice(ITEMS)
            if qualifier:
                pairs.append((f"ibi{qualifier}", f"{{{_form(other)}}}"))
            if chance.random() < 0.8:
                pairs += [
                    (f"url{qualifier}", f"http://{numbered.host(number)}/{chance.randrange(10**6)}"),
                    (f"state{qualifier}", chance.choice(("Original", "Copy", "Copy", "Deleted"))),
                    (f"contenttype{qualifier}", chance.choice(("Data", "Metadata"))),
                ]
        if chance.random() < 0.3:
            pairs.append(("ibi.nextedition", f"{{{_form(chance.choice(ITEMS))}}}"))
        if chance.random() < 0.3:
            pairs.append(("acknowledgmentbatch", "yes"))
        return pairs

    def _lie(self, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        chance = self._chance
        if not pairs:
            return pairs
        at, other = chance.randrange(len(pairs)), chance.randrange(len(pairs))
        name, value = pairs[at]
        match chance.randrange(8):
            case 0:
                return pairs[:at] + pairs[at + 1 :]
            case 1:
                return [*pairs, (name, pairs[other][1])]
            case 2:
                pairs[at] = (name, pairs[other][1])
            case 3:
                pairs[at] = (
                    name,
                    chance.choice(
                        (f"<{CANARY}>", grammar.expand("url", chance)[:2000], "{}", "javascript:alert(1)")
                    ),
                )
            case 4:
                pairs[at] = (name + grammar.expand("qualifier", chance), value)
            case 5:
                pairs[at] = (name, f"{{{grammar.expand('forms', chance)[:2000]}}}")
            case 6:
                pairs[at], pairs[other] = pairs[other], pairs[at]
            case _:
                return [*pairs, (f"<{CANARY}>{chance.randrange(9)}", f"<{CANARY}>")]
        return pairs


def _form(ibi: str) -> str:
    return f"rep {ibi}" if "." in ibi else f"ibip {ibi}"
