"""What a new item, and another identity, will look like: the values of both pages whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ibi.api.institution import facts_of
from ibi.api.institution_pages import IdentityPage
from ibi.archive.admin.item_pages import ReviewPage
from ibi.archive.model.item import Holding, MetadataValue
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings.institution import Institution, data_url
from ibi.web.administration.deposit_form import ACCESS_NAMES
from ibi.web.administration.deposit_review import values
from ibi.web.administration.identity_preview import IdentityPreview, PreviewMode, identity_words
from ibi.web.administration.operation_words import columns
from ibi.web.branding import Branding
from ibi.web.colour_scheme import ColourScheme
from ibi.web.formats.citation import plain

NAME, ROOT = "a.example/b/2013/01.02.00.00", "http://resolver.example"
SVG = data_url(b'<svg xmlns="http://www.w3.org/2000/svg"/>')
LIGHT = ("#fbfbf9", "#ffffff", "#1a1e1c", "#525a56", "#dcdfda")
DARK = ("#121514", "#1a1e1d", "#e8ebe9", "#aab3af", "#363d3a")


def review(metadata: dict[str, list[tuple[str, str | None]]] | None, **facts: Any) -> dict[str, Any]:
    read = None if metadata is None else {
        name: tuple(MetadataValue(*each) for each in rows) for name, rows in metadata.items()
    }  # fmt: skip
    holding = Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="2026-09-15T16:40:00Z", metadata=read)
    page = ReviewPage(holding, [], ROOT, "archive.example", "2026-11-22T10:00:00Z", **facts)
    return values(page, "en", Branding(Institution(name="Institute", publisher="Press")))


def test_a_new_item_is_shown_as_it_will_be_cited() -> None:
    found = review({
        "title": [("Water", "en"), ("Água", "pt")], "type": [("book part", None)], "date": [("2013", None)],
        "description": [("Águas", "pt"), ("Waters", "en")], "creator": [("Silva, Ana", None)],
    })  # fmt: skip
    record = found.pop("record")
    citations = [(name, plain(text)) for name, text in found.pop("citations")]
    assert found == {
        "access_names": ACCESS_NAMES, "kind_name": "Chapter of a book", "heading": "Water",
        "abstract": MetadataValue("Waters", "en"), "address": f"{ROOT}/…",
    }  # fmt: skip
    assert (record.url, record.publisher, record.names) == (f"{ROOT}/…", "Press", (NAME,))
    assert citations == [
        ("ABNT", f"SILVA, Ana. Water. [S. l.]: Press, 2013. Available at: {ROOT}/…. Accessed on: 22 Nov. 2026."),
        ("APA", "Silva, A. (2013). Water. Press. http://resolver.example/…"),
    ]  # fmt: skip
    edited = review({"title": [("Água", "pt")]}, is_new=False)
    assert (edited["address"], edited["heading"], edited["kind_name"]) == (f"{ROOT}/{NAME}", "Água", "")


def test_an_item_without_a_title_is_not_cited_by_a_name_that_it_does_not_have() -> None:
    bare, typed = review(None), review({"type": [("weblog", None)]})
    for found in (bare, typed):
        assert (found["heading"], found["citations"], found["abstract"]) == ("", [], None)
    assert (bare["kind_name"], typed["kind_name"]) == ("", "weblog")


def words(present: Institution, preview: Institution | None, branding: Branding) -> Any:
    return identity_words(IdentityPage({}, facts_of(present), "", preview=preview), branding, "pt-BR")


def test_a_preview_shows_header_and_colours_in_both_modes() -> None:
    kept = Institution(name="Institute", logo=SVG)
    branding = Branding(kept, address="archive.example")
    other = Institution(
        name="Institute", name_pt="Instituto", subtitle="Of the sea", colour="#f2b705", logo="", cover=SVG
    )
    scheme = ColourScheme.of("#f2b705")
    found = words(kept, other, branding)
    assert found == {
        "shown_now": {"logo": branding.assets["logo.svg"].address, "cover": ""},
        "preview": IdentityPreview(
            "Instituto", "Of the sea", "#f2b705", "", SVG,
            (PreviewMode("Claro", scheme.light, *LIGHT), PreviewMode("Escuro", scheme.dark, *DARK)),
        ),
    }  # fmt: skip
    # A picture that was kept just now is not among the assets of the pages yet.
    later = replace(kept, logo="", cover=SVG)
    assert words(later, None, branding) == {"shown_now": {"logo": "", "cover": SVG}, "preview": None}
    assert words(kept, Institution(), branding)["preview"].name == "Arquivo archive.example"


def test_a_table_has_the_members_of_all_rows_but_objects() -> None:
    assert columns([{"a": 1, "b": {}}, {"c": [], "a": {"x": 1}}, {"d": None}]) == ["c", "d"]
    assert columns([]) == []
