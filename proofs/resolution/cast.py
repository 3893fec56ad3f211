"""The parts of a scenario: Archives, items with one or two names, and what can be said, as values and as bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ibi.errors import ParseError
from ibi.identifier.forms import IBI, parse_ibi
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.archive import Archive as Registered
from proofs.resolution.oracle import Question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.protocol.messages import UrlRequest
    from ibi.protocol.verb_list import VerbList
    from proofs.resolution.answers import Steps

RESOLVER = "http://resolver.example"
READER = ("192.0.2.1",)

_DIGITS = "23456789BCDEFGHJKLMNPQRSTU"
_VERBS = {"GetLastEdition": "!", "GetTranslation": "+", "GetMetadata": ":"}


@dataclass(frozen=True)
class Archive:
    """An Archive as the resolver's registry knows it."""

    number: int
    confirmed: bool = True
    url_hosts: tuple[str, ...] = ()

    @cached_property
    def service_ibi(self) -> IBI:
        """Its service IBI."""
        return parse_ibi(self.name)

    @cached_property
    def known(self) -> Registered:
        """The value that a registry has of it."""
        return Registered(self.service_ibi, self.address, confirmed=self.confirmed, url_hosts=self.url_hosts)

    @cached_property
    def service(self) -> str:
        """The canonical text of its service IBI."""
        return self.service_ibi.canonical

    @property
    def name(self) -> str:
        """Its service IBI as text."""
        return f"a{self.number}.example/service/2020/01.01.00.00"

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"a{self.number}.example"

    def url(self, what: str) -> str:
        """Where it shows something."""
        return f"http://{self.address}/{what}"


@dataclass(frozen=True)
class ScriptedReply:
    """What an Archive replies: pairs, or something that is no pair list; None stands for silence."""

    pairs: Mapping[str, str] = field(hash=False)
    spoilt: bytes = b""

    @cached_property
    def body(self) -> bytes:
        """The bytes on the wire."""
        spelled = (
            f"{name} {{{text}}}" if " " in text else f"{name} {text}" for name, text in self.pairs.items()
        )
        return self.spoilt or "\r\n".join(spelled).encode()

    @cached_property
    def answer(self) -> UrlList | ParseError:
        """The same as the resolver reads it."""
        try:
            return UrlList.read(self.body)
        except ParseError as fault:
            return fault


@lru_cache(maxsize=4096)
def rep(number: int) -> str:
    """The long name of an item."""
    return f"items{number % 7}.example/x/2020/01.01.00.{number % 60:02}.{number // 60:02}"


@lru_cache(maxsize=4096)
def ibip(number: int) -> str:
    """Its short name."""
    return f"LK47B6W/3{_DIGITS[number // 26 % 26]}{_DIGITS[number % 26]}"


def steps_of(verbs: VerbList) -> Steps:
    """Verbs in the words of the oracle."""
    return tuple(_VERBS[verb.partition("(")[0]] + verb[len(verb.partition("(")[0]) :] for verb in verbs.verbs)


def question_of(request: UrlRequest) -> Question:
    """What the resolver asks, in the words of the oracle."""
    return Question(str(request.ibi).lower(), steps_of(request.verbs))
