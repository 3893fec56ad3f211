"""The tags that Google Scholar, Zotero and the like read in a page: citation_title, citation_author … (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.web.formats.record import Record

MOST: Final = 50
"""Tags of one name."""

_PUBLISHED_BY: Final = {
    "thesis": "citation_dissertation_institution",
    "report": "citation_technical_report_institution",
}
_INSIDE: Final = {
    "article-journal": "citation_journal_title",
    "paper-conference": "citation_conference_title",
    "chapter": "citation_inbook_title",
}


def tags(item: Record, page: str) -> list[tuple[str, str]]:
    """(name, content) of each tag, in order. `page`: the URL of the page that they stand in."""
    return [(name, content) for name, content in _tags(item, page) if content]


def _tags(item: Record, page: str) -> Iterator[tuple[str, str]]:
    yield "citation_title", item.title
    for person in item.creators[:MOST]:
        yield "citation_author", person.name
        if person.orcid:
            yield "citation_author_orcid", f"https://orcid.org/{person.orcid}"
    yield "citation_publication_date", str(item.issued).replace("-", "/") if item.issued else ""
    yield _PUBLISHED_BY.get(item.kind.csl, "citation_publisher"), item.publisher
    yield _INSIDE.get(item.kind.csl, ""), item.source if item.kind.csl in _INSIDE else ""
    yield "citation_language", item.language
    yield "citation_doi", item.doi
    for text in item.subjects[:MOST]:
        yield "citation_keywords", text.value
    yield "citation_abstract_html_url", page
    yield "citation_public_url", item.url
    for file in item.files:
        if file.media_type.startswith("application/pdf"):
            yield "citation_pdf_url", file.url
            return
