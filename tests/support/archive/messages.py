"""Messages for a served Archive, URL requests and acknowledgments, and what its answers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibi.identifier.forms import parse_name
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import REP, SERVICE, Answer, NewArchive, Served, fill, listener, serving

PATH = f"/{SERVICE.rep}"


@contextmanager
def running(new_archive: Callable[..., NewArchive], *items: object, **more: object) -> Iterator[Served]:
    """An Archive with the usual items and some more, under settings that differ, at its own address."""
    made = listener()
    archive = new_archive(f"127.0.0.1:{made.getsockname()[1]}", **more)
    fill(archive)
    archive.load(*items)
    assert archive.refused == []
    with serving(archive, made) as served:
        yield served


def request(ibi: str, verbs: str = "", path: str = "", readers: str = "192.0.2.1") -> str:
    """The target of a URL request."""
    message = UrlRequest(tuple(readers.split()), parse_name(ibi), path, VerbList.parse(verbs))
    return f"{PATH}?{message.query()}"


def url_list(answer: Answer) -> UrlList:
    """What an answer to a URL request says."""
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain"), answer.text
    return UrlList.read(answer.body)


def acknowledgment(key: str, readers: int = 1, event: str = "") -> str:
    """The target of an acknowledgment."""
    url = "http://far.example/"
    persistent = f"http://r.example/{REP}"
    message = Acknowledgment(
        ("192.0.2.1",), ContentType.DATA, ItemState.ORIGINAL, url, persistent, key, count=readers, event=event
    )
    return f"{PATH}?{message.query()}"


def counted(served: Served, ibi: str = REP) -> int:
    """How many readers an item has by now."""
    catalogue = served.archive.catalogue
    holding = catalogue.holding(parse_name(ibi))
    assert holding is not None
    return catalogue.acknowledgments(holding.number)
