"""What helps a reader who was not led to an item: ways on, likely slips, and whom to tell (RES-13); pure values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from ibi.errors import IbiError
    from ibi.resolver.wish import Say, Wish

LONGEST_URL: Final = 600
"""Characters of a persistent URL in a letter that is begun for a reader: mail programs cut longer ones."""

_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
_SAFE: Final = "@.-_~+"


class Way(NamedTuple):
    """One way on: what it leads to, in a sentence, and its URL; a path is one at this resolver."""

    words: str
    url: str


class Responsible(NamedTuple):
    """An Archive that an alert concerns; `mail` is "" where nobody is known."""

    service_ibi: str
    address: str
    mail: str


@dataclass(frozen=True, slots=True)
class Advice:
    """What helps.

    `wish`: what was understood; `slips`: what looks wrong in the name; `others`: Archives that have answered and offer
    nothing of it, None where nobody was asked; `to`: the addresses of a letter about it.
    """

    wish: Wish
    ways: tuple[Way, ...] = ()
    slips: tuple[IbiError, ...] = ()
    responsible: tuple[Responsible, ...] = ()
    others: int | None = None
    to: tuple[str, ...] = ()

    def whole(self, way: Way) -> str:
        """The URL of a way on, with its host."""
        return f"{self.wish.root}{way.url}" if way.url.startswith("/") else way.url

    def as_dict(self, say: Say) -> dict[str, Any]:
        """The further members of a problem (RFC 9457)."""
        told: dict[str, Any] = {"asked": self.wish.as_dict()}
        if self.others is not None:
            told["offer_nothing"] = self.others
        if self.ways:
            told["ways"] = [{"title": say(way.words, {}), "url": self.whole(way)} for way in self.ways]
        if self.slips:
            told["slips"] = [say(slip.problem, slip.details) for slip in self.slips]
        known = [
            {"service_ibi": each.service_ibi, "mail": each.mail} for each in self.responsible if each.mail
        ]
        if known:
            told["responsible"] = known
        return told

    def lines(self, say: Say) -> list[str]:
        """The same as sentences."""
        wanted = "; ".join(self.wish.words(say)) or say("the item itself", {})
        lines = [say("It was understood as: {ibi}, {wish}", {"ibi": self.wish.ibi, "wish": wanted})]
        for slip in self.slips:
            said = say(slip.problem, slip.details)
            lines += [say("Perhaps a slip: {slip}", {"slip": said})]
        for way in self.ways:
            lines += [f"{say(way.words, {})}: {self.whole(way)}"]
        for each in self.responsible:
            known = {"archive": each.service_ibi, "mail": each.mail}
            lines += [say("Responsible for {archive}: {mail}", known)] if each.mail else []
        return lines

    def letter(self, title: str, say: Say) -> str:
        """A `mailto:` with the beginnings of a report; "" where nobody is known who could be told."""
        if not self.to:
            return ""
        url = f"{self.wish.root}{self.wish.url.text}"[:LONGEST_URL]
        begun = say("This persistent URL did not lead me to its item:", {})
        body = "\r\n".join((begun, url, "", title, "", say("What I expected to find:", {}), ""))
        subject = f"{title}: {self.wish.ibi}"
        to = ",".join(quote(each, safe=_SAFE) for each in self.to)
        return f"mailto:{to}?subject={quote(subject, safe='')}&body={quote(body, safe='')}"


def is_mail(text: str) -> bool:
    """Whether a text can stand as the one address of a letter."""
    return _MAIL.fullmatch(text) is not None
