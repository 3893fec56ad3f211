"""Suggestions for a reader who gets an alert: words, other links, typos, a contact (RES-13); pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from ibi.errors import ParseError
from ibi.protocol.messages import NO_TITLES, ArchiveTitles
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Relation, Step, StepKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.errors import IbiError

    Say = Callable[[str, Mapping[str, object]], str]


FILE_LIST: Final = "ibiurl.verblist=GetFileList"

_BARE: Final = {
    StepKind.LAST_EDITION: "the last edition",
    StepKind.TRANSLATION: "the translation into the language of your browser",
    StepKind.METADATA: "the metadata",
}
_GIVEN: Final = {
    StepKind.LAST_EDITION: "the last edition",
    StepKind.TRANSLATION: "the translation into: {parameter}",
    StepKind.METADATA: "the metadata in the format {parameter}",
}
"""The names of a step, without (`_BARE`) and with (`_GIVEN`) its parameter."""
_NAMES: Final = {
    StepKind.LAST_EDITION: "last edition",
    StepKind.TRANSLATION: "translation",
    StepKind.METADATA: "metadata",
}


def step_words(relation: Relation, say: Say, language_name: Callable[[str], str] = str) -> list[str]:
    """Return a phrase for each step of a relation; `language_name` returns the name of the language of a tag."""
    pieces = []
    for step in relation.steps:
        given = step.parameter or ""
        named = language_name(given) if given and step.kind is StepKind.TRANSLATION else given
        pieces.append(say((_GIVEN if given else _BARE)[step.kind], {"parameter": named}))
    return pieces


class ParsedRequest(NamedTuple):
    """What a persistent URL asks for. `root` is the part before its path: "http://urlib.net"."""

    url: PersistentURL
    root: str

    @property
    def ibi(self) -> str:
        """The IBI of the item, as it is spelled in the URL."""
        return str(self.url.ibi)

    @property
    def named_on(self) -> str:
        """The date in the name, as in RFC 3339; "" where the name has none."""
        return self.url.ibi.date.text or ""

    def words(self, say: Say, language_name: Callable[[str], str] = str) -> list[str]:
        """Return what is wanted of the item, in phrases; an empty list where the item itself is wanted.

        `language_name` returns the name of the language of a tag.
        """
        pieces = step_words(self.url.relation, say, language_name)
        if self.url.file_path:
            pieces.append(say("the file {path}", {"path": self.url.file_path[1:]}))
        if self.url.file_list:
            pieces.append(say("the list of files", {}))
        if self.url.original_required:
            pieces.append(say("the original, never a copy", {}))
        return pieces

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; the keys are stable."""
        return {
            "ibi": self.ibi,
            "named_on": self.named_on or None,
            "relation": [
                {"what": _NAMES[step.kind], "parameter": step.parameter} for step in self.url.relation.steps
            ],
            "file": self.url.file_path[1:] or None,
            "file_list": self.url.file_list,
            "original_required": self.url.original_required,
        }

    def path(
        self,
        steps: tuple[Step, ...] | None = None,
        *,
        file: bool = True,
        file_list: bool | None = None,
    ) -> str:
        """Return path and query of a persistent URL of the item, with other steps or without the file."""
        url = self.url
        relation = url.relation if steps is None else Relation(steps)
        wants_list = url.file_list if file_list is None else file_list
        query = [FILE_LIST] if wants_list else []
        query += [url.foreign_query] if url.foreign_query and file else []
        tail = f"?{'&'.join(query)}" if query else ""
        return f"/{url.ibi}{relation.modifier}{url.file_path if file else ''}{tail}"


def parse_request(url: str) -> ParsedRequest | None:
    """Parse a whole persistent URL; return None for a text that is none."""
    try:
        found = PersistentURL.from_text(url)
    except ParseError:
        return None
    return ParsedRequest(found, url.removesuffix(found.text)) if url.endswith(found.text) else None


LONGEST_URL: Final = 600
"""Characters of the persistent URL in a prepared mail: mail programs cut longer links."""

_SAFE: Final = "@.-_~+"


class SuggestedLink(NamedTuple):
    """One suggested link: a sentence that says what it leads to, and its URL, or a path at this resolver."""

    words: str
    url: str


class Responsible(NamedTuple):
    """An Archive that an alert concerns; `mail` is "" where none is known, `titles` are what readers call it.

    `since`: when it was included, "" where that is not known.
    """

    service_ibi: str
    address: str
    mail: str
    titles: ArchiveTitles = NO_TITLES
    since: str = ""

    def shown(self, language: str) -> str:
        """Return what pages in a language call it: by name, else by address."""
        return self.titles.in_language(language) or self.address


class Absence(NamedTuple):
    """An Archive that gave no answer. Moments as in "2026-11-21T10:00:00Z", "" where not known.

    `off_since`: when it was switched off, "" if it was not; `back_at`: when it expects to be back; `heard`: when
    this process heard it last.
    """

    archive: Responsible
    off_since: str = ""
    back_at: str = ""
    heard: str = ""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What may help the reader.

    `parsed`: the request as it was understood. `typos`: likely typos in the name. `others`: how many Archives
    answered and offer nothing of the item, None where none was asked. `to`: the addresses of a mail about it.
    `places`: the page of the item at each Archive that claims it.
    """

    parsed: ParsedRequest
    ways: tuple[SuggestedLink, ...] = ()
    typos: tuple[IbiError, ...] = ()
    responsible: tuple[Responsible, ...] = ()
    others: int | None = None
    to: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()

    def whole(self, way: SuggestedLink) -> str:
        """Return the URL of a suggested link, with its host."""
        return f"{self.parsed.root}{way.url}" if way.url.startswith("/") else way.url

    def as_dict(self, say: Say) -> dict[str, Any]:
        """Return further members of a problem in JSON (RFC 9457)."""
        members: dict[str, Any] = {"asked": self.parsed.as_dict()}
        if self.others is not None:
            members["offer_nothing"] = self.others
        if self.ways:
            members["ways"] = [{"title": say(way.words, {}), "url": self.whole(way)} for way in self.ways]
        if self.typos:
            members["slips"] = [say(typo.problem, typo.details) for typo in self.typos]
        known = [
            {"service_ibi": each.service_ibi, "mail": each.mail} for each in self.responsible if each.mail
        ]
        if known:
            members["responsible"] = known
        return members

    def lines(self, say: Say) -> list[str]:
        """Return the suggestions as sentences."""
        wanted = "; ".join(self.parsed.words(say)) or say("the item itself", {})
        lines = [say("It was understood as: {ibi}, {wish}", {"ibi": self.parsed.ibi, "wish": wanted})]
        for typo in self.typos:
            found = say(typo.problem, typo.details)
            lines += [say("Perhaps a typing error: {slip}", {"slip": found})]
        for way in self.ways:
            lines += [f"{say(way.words, {})}: {self.whole(way)}"]
        for each in self.responsible:
            known = {"archive": each.service_ibi, "mail": each.mail}
            lines += [say("Person in charge of {archive}: {mail}", known)] if each.mail else []
        return lines

    def letter(self, title: str, say: Say) -> str:
        """Return a `mailto:` URL with the beginning of a report; "" where no address is known."""
        if not self.to:
            return ""
        url = f"{self.parsed.root}{self.parsed.url.text}"[:LONGEST_URL]
        begun = say("This persistent URL did not lead me to its item:", {})
        body = "\r\n".join((begun, url, "", title, "", say("What I expected to find:", {}), ""))
        subject = f"{title}: {self.parsed.ibi}"
        to = ",".join(quote(each, safe=_SAFE) for each in self.to)
        return f"mailto:{to}?subject={quote(subject, safe='')}&body={quote(body, safe='')}"
