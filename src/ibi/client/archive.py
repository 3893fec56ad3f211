"""Use the JSON interface of an Archive: read, find and deposit items."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.client.answers import garbled, members_of, metadata_of
from ibi.client.form import Form
from ibi.client.transport import JSON, PROBLEM, Client
from ibi.errors import BadField
from ibi.identifier.unwrapping import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ibi.client.answers import Members, Metadata
    from ibi.client.transport import Body
    from ibi.identifier.forms import Name

    Elements = Mapping[str, list[str | dict[str, str]]]

_ITEMS: Final = "/-/api/items"
_SEARCH: Final = "/-/api/search"
_CHANGES: Final = "/-/api/changes"
_LONGEST_KEY: Final = 255  # characters of an Idempotency-Key


@dataclass(frozen=True, slots=True)
class Item:
    """An item as the Archive tells it.

    `rep`, `ibip`: its names, "" if it has no such one; `title`: its first title, or ""; `etag`: of this version;
    `facts`: everything, as in JSON lines.
    """

    rep: str
    ibip: str
    state: str
    title: str
    timestamp: str
    etag: str
    facts: Mapping[str, Any]

    @property
    def ibi(self) -> str:
        """The shorter name if there is one."""
        return self.ibip or self.rep


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item that was found; `page` is the URL of its page, `year` None if it is not known."""

    ibi: str
    title: str
    people: tuple[str, ...]
    year: int | None
    language: str
    kind: str
    state: str
    timestamp: str
    page: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an item. `cursor`: what to give to `Archive.changes` to get what comes after it.

    `what`: "added", "edited", "moved" or "removed"; `changed`: the fields that were edited, with "files" for any file;
    `state`: that of the item now; `page`: the URL of its page.
    """

    cursor: str
    ibi: str
    what: str
    changed: tuple[str, ...]
    moment: str
    state: str
    page: str


class Archive(Client):
    """An Archive, by its root URL. Deposits need a token with the scope `deposit`."""

    def item(self, name: str | Name) -> Item:
        """Return an item. Raises ParseError, NotFound, Removed and other Refused, and PeerError."""
        reply = self.ask("GET", f"{_ITEMS}/{unwrap(str(name)).ibi}", JSON)
        return _item(members_of(reply, self.host), reply.headers.get("etag", ""))

    def metadata(self, name: str | Name, format: str = "oai_dc") -> Metadata:  # noqa: A002 - the word of the interface
        """Return the metadata of an item in a format of the Archive, as "bibtex". Raises as `item`."""
        words = urlencode({"format": format})
        reply = self.follow(f"/-/metadata/{unwrap(str(name)).ibi}?{words}", f"{PROBLEM}, */*;q=0.5")
        return metadata_of(reply, self.host)

    def search(
        self, text: str = "", *, person: str = "", year: int | None = None, language: str = "", kind: str = ""
    ) -> Iterator[FoundItem]:
        """Yield the items that are found; each page is asked for when it is needed. Raises Refused, PeerError."""
        words = {"text": text, "person": person, "year": year or "", "language": language, "kind": kind}
        target = f"{_SEARCH}?{urlencode({name: value for name, value in words.items() if value})}"
        while target:
            page = members_of(self.ask("GET", target, JSON), self.host)
            found = page.list("items")
            yield from (self._found(each) for each in found)
            target = page.text("next") if found else ""
            if target and not target.startswith(f"{_SEARCH}?"):
                raise garbled(self.host)

    def changes(self, after: str | None = None) -> Iterator[Change]:
        """Yield all items as they are and then each change; with `after`, what has followed that cursor.

        It ends where nothing has followed yet, and remembers nothing: keep the cursor of the last change that you
        have dealt with. Raises Refused and PeerError; Removed (410) if the cursor is of before a restore: begin again.
        """
        target, more = f"{_CHANGES}?{urlencode({'after': after or ''})}", True
        while more:
            page = members_of(self.ask("GET", target, JSON), self.host)
            yield from (self._change(each) for each in page.list("changes"))
            target, more = page.text("next"), page.all.get("more") is True
            if not target.startswith(f"{_CHANGES}?"):
                raise garbled(self.host)

    def deposit(
        self,
        title: str = "",
        *,
        metadata: Elements | None = None,
        files: Mapping[str, bytes | Path] | None = None,
        edition_of: str | Name = "",
        key: str | None = None,
        **fields: object,
    ) -> Item:
        """Deposit a new item, once even if the connection breaks: all attempts have one Idempotency-Key.

        `files`: names with contents or paths; `fields`: any other member of a deposit, as `url`, `language`, `access`
        or `translation_of`; `key`: an Idempotency-Key of your own, with which the same call may be made again later.
        Raises Refused, PeerError, and SetupError if a file cannot be read.
        """
        elements = dict(metadata or {})
        if title:
            elements["title"] = [title, *elements.get("title", ())]
        item = {**fields, "metadata": elements} if elements else dict(fields)
        if edition_of:
            item["edition_of"] = str(edition_of)
        value = json.dumps(item, ensure_ascii=False, default=str).encode("utf-8", "replace")
        headers = {"Idempotency_Key": secrets.token_urlsafe() if key is None else _checked(key)}
        body: Body = value
        if files:
            body = form = Form(value, files)
            headers |= {"Content_Type": form.content_type, "Content_Length": str(form.length)}
        else:
            headers["Content_Type"] = JSON
        reply = self.ask("POST", _ITEMS, JSON, body, **headers)
        return _item(members_of(reply, self.host), reply.headers.get("etag", ""))

    def _change(self, facts: Members) -> Change:
        text = facts.text
        return Change(
            text("cursor"), text("ibi"), text("what"), facts.texts("changed"), text("moment"), text("state"),
            f"{self.root}{text('page')}",
        )  # fmt: skip

    def _found(self, facts: Members) -> FoundItem:
        text = facts.text
        return FoundItem(
            text("ibi"), text("title"), facts.texts("people"), facts.number("year"), text("language"),
            text("kind"), text("state"), text("timestamp"), f"{self.root}{text('page')}",
        )  # fmt: skip


def _item(facts: Members, etag: str) -> Item:
    titles = facts.members("metadata").all.get("title")
    first = titles[0] if isinstance(titles, list) and titles else ""
    title = first.get("value") if isinstance(first, dict) else first
    rep, ibip, state, timestamp = map(facts.text, ("rep", "ibip", "state", "timestamp"))
    return Item(
        rep, ibip, state or "Original", title if isinstance(title, str) else "", timestamp, etag, facts.all
    )


def _checked(key: str) -> str:
    if not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        problem = "an Idempotency-Key has 1 to {most} visible characters"
        raise BadField(problem, most=_LONGEST_KEY, name="key")
    return key
