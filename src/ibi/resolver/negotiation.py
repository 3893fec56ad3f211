"""Metadata for readers who ask for them by the header Accept (note 30: formats by Accept); pure.

/<ibi>!  Accept: application/x-bibtex   is resolved as   /<ibi>!:(bibtex)
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ibi.errors import ParseError
from ibi.http.accept import FORMAT_OPTIONS, accepted_format
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import split_query, unescape, write_query
from ibi.protocol.relation import Relation, Step, StepKind
from ibi.protocol.verb_list import GET_FILE_LIST
from ibi.protocol.vocabulary import FORMAT_BY_TYPE, VERBS_OF_URL


class RequestedFormat(NamedTuple):
    """A metadata format by its name, and its options as a query: "style=apa&locale=pt-br", "" for none."""

    name: str
    options: str = ""

    def urls(self, url: PersistentURL) -> tuple[PersistentURL, ...]:
        """Return the URLs to resolve, the first that leads anywhere counts: of the metadata, then of the item.

        Everything else that the URL asks for is kept: edition, translation, original, and the query for the item.
        """
        if not negotiable(url):
            return (url,)
        relation = Relation((*url.relation.steps, Step(StepKind.METADATA, self.name)))
        given = [
            each
            for each in split_query(url.text.partition("?")[2])
            if unescape(each.partition("=")[0]) != VERBS_OF_URL  # they are in the relation
        ]
        query = "&".join([*given, *([self.options] if self.options else [])])
        try:
            return (PersistentURL.parse(f"/{url.ibi}{relation.modifier}", query), url)
        except ParseError:  # too long with the options
            return (url,)


def negotiable(url: PersistentURL) -> bool:
    """Whether a URL leads to an item itself: no file, no list of files, and no metadata yet."""
    if url.file_path or GET_FILE_LIST in url.verbs.verbs:
        return False
    return all(step.kind is not StepKind.METADATA for step in url.relation.steps)


@lru_cache(maxsize=256)
def requested_format(accept: bytes) -> RequestedFormat | None:
    """Return the metadata format that a header Accept prefers; None for the item, as browsers want it.

    No type that we do not know, and no header that cannot be read, keeps a reader from the item. The plain types of
    XML have no format here, since the item itself may be an XML file. Callers pass on no more than LONGEST_ACCEPT
    bytes, which are cached.
    """
    name, options, _ = accepted_format(accept.decode("latin-1"), FORMAT_BY_TYPE)
    if name is None:
        return None
    return RequestedFormat(
        name, write_query((each, options[each]) for each in FORMAT_OPTIONS if each in options)
    )
