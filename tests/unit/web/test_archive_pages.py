"""The pages of an Archive, in both languages."""

from __future__ import annotations

import pytest

from ibi.accounts.layout import Layout
from ibi.archive.admin.other_pages import ArchiveHealth, OverviewPage
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.pages.models import (
    AboutPage,
    ArchivePage,
    CollectionFacts,
    FileListPage,
    ItemPage,
    ListedItem,
    MetadataPage,
    NoticePage,
    SiteContext,
)
from ibi.archive.search.search import FacetValue
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import NotHeld, ParseError
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ContentType, ItemState
from ibi.web import administration_pages, listed_items
from ibi.web.item_values import LONGEST_TITLE, short_title
from support.web.html_page import Page
from support.web.unnamed import BRANDING, render

pytestmark = pytest.mark.proves("SVC-11", "SVC-12")

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40 ibip 32G4GKPW/4GE5BA8")
BASE = "http://archive.example/col/archive.example/first/2026/09.14.16.40/doc"
TITLES = (MetadataValue("Names that stay", "en"), MetadataValue("Nomes que ficam", "pt-BR"))
FILES = (
    StoredFile("index.html", 1843, "0" * 64, "text/html"),
    StoredFile("Relat%f3rio%20Final.pdf", 24_300_163, "0" * 64, "application/pdf"),
)


def _holding(**facts: object) -> Holding:
    known = {"forms": FORMS, "timestamp": "2026-09-14T16:40:00Z", "files": FILES, "target": "index.html"}
    return Holding(**(known | {"metadata": {"title": TITLES}} | facts))  # type: ignore[arg-type]  # a test names its facts


def _file_list(**facts: object) -> FileListPage:
    return FileListPage(_holding(**facts))


def test_a_file_list_shows_name_type_and_size_of_each_file_with_its_link() -> None:
    page = Page(render(_file_list(), "en"))
    path = f"/col/{FORMS.main}/doc/Relat%f3rio%20Final.pdf"
    assert page.links[path] == "Relatório Final.pdf"
    assert {"application/pdf", "24.3 MB", "1.8 kB", "shown first"} <= page.words
    assert page.heading == "Names that stay"


def test_the_same_list_in_portuguese_has_portuguese_numbers_and_title() -> None:
    page = Page(render(_file_list(), "pt-BR"))
    assert page.language == "pt-BR"
    assert {"24,3 MB", "1,8 kB", "mostrado primeiro", "Tamanho"} <= page.words
    assert page.heading == "Nomes que ficam"


def test_a_linked_item_has_no_file_list_but_says_where_it_lives() -> None:
    page = Page(render(FileListPage(_holding(files=(), url=f"{BASE}/x")), "en"))
    assert f"{BASE}/x" in page.links
    assert "This item lives elsewhere; its files are not kept in this Archive." in page.words


def test_an_item_without_files_says_so() -> None:
    assert "This item has no files." in Page(render(_file_list(files=(), target=""), "en")).words


def test_an_item_page_tells_its_names_state_date_and_relations() -> None:
    alias = LegacyId.parse("6qtX3pFwXQZ3r59YCT/GUKUk")
    holding = _holding(language="pt-BR", aliases=(alias,))
    related = ((".metadata", f"{BASE}/m"),)
    place = SiteContext("http://archive.example", "http://resolver.example/")
    page = Page(render(ItemPage(holding, f"{BASE}/index.html", place, related), "en"))
    assert page.links["http://resolver.example/32G4GKPW/4GE5BA8"]
    assert page.links[f"{BASE}/m"] == "metadata"
    assert {"Original", "Portuguese (Brazil)", str(alias), "Open access"} <= page.words
    assert any(word.startswith("September 14, 2026") for word in page.words)
    assert page.links["/-/files/archive.example/first/2026/09.14.16.40"] == "The files on a page of their own"


@pytest.mark.parametrize(
    ("facts", "english", "portuguese"),
    [
        ({"state": ItemState.COPY}, "Copy", "Cópia"),
        ({"state": ItemState.DELETED, "files": (), "target": ""}, "Removed", "Removido"),
        ({"content_type": ContentType.METADATA}, "Metadata", "Metadados"),
    ],
)
def test_states_and_contents_have_words_in_both_languages(
    facts: dict[str, object], english: str, portuguese: str
) -> None:
    page = ItemPage(_holding(**facts), None)
    assert english in Page(render(page, "en")).words
    assert portuguese in Page(render(page, "pt-BR")).words


@pytest.mark.proves("CON-07")
def test_a_copy_says_where_its_original_is_and_since_when_it_may_differ() -> None:
    def words(language: str, **facts: object) -> Page:
        source = CopySource(archive="http://other.example", checked="2026-09-15T10:00:00Z", **facts)  # type: ignore[arg-type]  # by name
        page = ItemPage(_holding(state=ItemState.COPY), f"{BASE}/x", source=source)
        return Page(render(page, language))

    equal = words("en")
    assert equal.links["http://other.example"] == "http://other.example"
    assert {"The original is at", "Equal to the original on"} <= equal.words
    assert any(word.startswith("September 15, 2026") for word in equal.words)
    lagging = words("pt-BR", since="2026-09-16T10:00:00Z", private=True)
    assert "http://other.example" not in lagging.links  # it is an address of a private network
    assert "Pode diferir do original desde" in lagging.words
    assert "Igual ao original em" not in lagging.words
    assert (
        not {"Equal to the original on", "May differ from the original since"}
        & words("en", compared=False).words
    )
    assert "Equal to the original" in words("en", compared=False).words
    assert "Equal to the original" not in equal.words | words("en", since="2026-09-16T10:00:00Z").words
    alone = Page(render(ItemPage(_holding(state=ItemState.COPY), f"{BASE}/x"), "en"))
    assert "not known: the two have not been compared" in alone.words


@pytest.mark.proves("ARC-07")
def test_what_is_left_of_an_item_is_its_title_the_date_and_the_reason_of_its_removal() -> None:
    holding = _holding(
        state=ItemState.DELETED,
        files=(),
        target="",
        url="",
        reason="Withdrawn <by> its author.",
        access=Access.CLOSED,
    )
    page = Page(
        render(
            ItemPage(
                holding,
                None,
                SiteContext("http://a.example", "http://r.example", "keeper@a.example"),
                status=410,
            ),
            "en",
        )
    )
    assert page.heading == "Names that stay"
    assert {"Removed", "Removed on", "Reason for the removal", "Withdrawn <by> its author."} <= page.words
    assert any(word.startswith("September 14, 2026") for word in page.words)
    assert "Closed" not in page.words  # nothing is left to be let in to
    assert {"keeper@a.example", "What you can do"} <= page.words
    assert f"http://r.example/{FORMS.main}" in page.links
    portuguese = Page(
        render(
            ItemPage(
                holding,
                None,
                SiteContext("http://a.example", "http://r.example", "keeper@a.example"),
                status=410,
            ),
            "pt-BR",
        )
    )
    assert {"Removido", "Motivo da remoção"} <= portuguese.words


@pytest.mark.proves("SVC-10")
@pytest.mark.parametrize(
    ("facts", "english", "portuguese"),
    [
        ({"access": Access.CLOSED}, "Closed", "Fechado"),
        ({"access": Access.RESTRICTED}, "Restricted (licensed networks)", "Restrito (redes licenciadas)"),
        (
            {"access": Access.EMBARGOED, "embargo": "2027-01-01"},
            "until January 1, 2027",
            "até 1 de janeiro de 2027",
        ),
    ],
)
def test_a_page_says_who_may_have_the_data_and_offers_them_to_no_other_reader(
    facts: dict[str, object], english: str, portuguese: str
) -> None:
    holding = _holding(**facts)
    kept_back = ItemPage(holding, None, access=holding.access)
    for language, words in (("en", english), ("pt-BR", portuguese)):
        page = Page(render(kept_back, language))
        assert any(words in word for word in page.words)
        assert not any(link.startswith(("/-/files", "/-/zip")) for link in page.links)
    opened = Page(render(ItemPage(holding, f"{BASE}/index.html"), "en"))
    assert f"/-/zip/{FORMS.main}" in opened.links
    over = holding.access is Access.EMBARGOED
    assert any(english in word for word in opened.words) is not over
    assert ("Open access" in opened.words) is over


def test_rights_and_licence_stand_on_the_page_and_an_open_item_is_called_open() -> None:
    holding = _holding(rights="All may <read> it.", licence="https://licence.example/by/4.0/")
    page = Page(render(ItemPage(holding, f"{BASE}/index.html"), "en"))
    assert {"Licence", "All may <read> it."} <= page.words
    assert page.links["https://licence.example/by/4.0/"] == "https://licence.example/by/4.0/"
    assert "Open access" in page.words
    assert b"javascript" not in render(ItemPage(_holding(licence=""), None), "en")


def test_the_list_of_files_leads_to_all_of_them_in_one() -> None:
    assert f"/-/zip/{FORMS.main}" in Page(render(_file_list(), "en")).links
    hidden = Page(render(ItemPage(_holding(file_list_public=False), f"{BASE}/index.html"), "en"))
    assert not any(link.startswith(("/-/files", "/-/zip")) for link in hidden.links)


def test_metadata_keep_the_language_of_each_value_and_the_order_of_dublin_core() -> None:
    metadata = {"rights": (MetadataValue("livre", "pt"),), "title": TITLES}
    body = render(MetadataPage(_holding(), metadata, {"oai_dc": f"{BASE}/m?format=oai_dc"}), "en")
    page = Page(body)
    assert b'<dd lang="pt">livre</dd>' in body
    assert body.index(b"Names that stay</dd>") < body.index(b"livre")
    assert page.links[f"{BASE}/m?format=oai_dc"] == "oai_dc"


def test_metadata_without_any_statement_say_so() -> None:
    assert (
        "Nothing is recorded about this item." in Page(render(MetadataPage(_holding(), {}, {}), "en")).words
    )


def test_an_archive_introduces_itself() -> None:
    place = SiteContext(resolver="http://r.example/")
    page = Page(render(AboutPage("a.example", "a.example/x/2026/01.01.00.00", 12345, place), "pt-BR"))
    assert {"a.example/x/2026/01.01.00.00", "Arquivo archive.example", "12.345"} <= page.words
    assert "http://r.example/" in page.links


def test_an_archive_without_items_says_so_and_leads_librarians_on() -> None:
    page = Page(render(ArchivePage(0), "en"))
    assert {"Nothing here yet", "0", "items"} <= page.words
    assert page.links["/-/admin/deposit"] == "Deposit the first item"
    assert not [link for link in page.links if link.startswith(("/-/search?", "/-/statistics?"))]


def test_other_kinds_come_last_on_the_front_page() -> None:
    values = ("Other", "Text", "Dataset")
    facts = CollectionFacts(kinds=tuple(FacetValue(value, "", 3) for value in values))
    links = Page(render(ArchivePage(9, facts=facts), "en")).links
    kinds = [link.partition("kind=")[2] for link in links if "kind=" in link]
    assert kinds == ["Text", "Dataset", "Other"]


def test_a_notice_says_its_problem_in_the_language_of_the_reader() -> None:
    page = NoticePage(
        404,
        NotHeld("this Archive does not hold {name}", name="x/y"),
        links=(("Resolver", "http://r.example/"),),
    )
    assert "This Archive does not hold x/y" in Page(render(page, "en")).words
    portuguese = Page(render(page, "pt-BR"))
    assert "Este Arquivo não tem x/y" in portuguese.words
    assert portuguese.links["http://r.example/"] == "Resolvedor"


def test_a_notice_about_a_faulty_text_points_at_the_fault() -> None:
    error = ParseError("IBIp", "LK47B6W/O", "it is not an IBIp", 8, 9, suggestion="LK47B6W/2")
    body = render(NoticePage(400, error), "en")
    assert b'LK47B6W/<b class="fault">O</b>\n<span class="fault">        ^</span>' in body
    assert b"LK47B6W/2" in body


def test_what_others_wrote_is_never_markup_and_never_a_script_link() -> None:
    evil = MetadataValue('<script>alert("x")</script>', '"><b>')
    holding = _holding(metadata={"title": (evil,)}, files=(), target="", url="javascript:alert(1)")
    for page in (
        ItemPage(
            holding,
            "javascript:alert(1)",
            SiteContext("javascript:alert(4)", "javascript:alert(2)", 'x"><script>@a.example'),
            ((".<b>", "javascript:alert(3)"),),
        ),
        MetadataPage(holding, {"title": (evil,)}, {"<i>": "javascript:x"}),
        FileListPage(holding),
        NoticePage(404, NotHeld("{x}", x="<script>")),
    ):
        body = render(page, "en")
        assert b"<script>" not in body
        assert b"<b>" not in body
        assert not [link for link in Page(body).links if link.startswith("javascript")]


def test_an_item_without_title_is_called_by_its_name() -> None:
    assert short_title(_holding(metadata=None), "en") == "archive.example/first/2026/09.14.16.40"
    assert short_title(_holding(metadata={"title": (MetadataValue("Nur so", "de"),)}), "pt-BR") == "Nur so"


@pytest.mark.parametrize("evil", ["x" * 300_000, "word " * 60_000, " " * 5_000 + "word"])
def test_a_list_shortens_titles_that_are_too_long(evil: str) -> None:
    holding = _holding(metadata={"title": (MetadataValue(evil, "en"),)})
    assert 0 < len(short_title(holding, "en")) <= LONGEST_TITLE + len(" …")
    listed = ListedItem(holding, holding.metadata or {}, Access.OPEN)
    assert listed_items.listed(listed, "en", "")["source"] == ""
    assert len(render(ArchivePage(10, newest=(listed,) * 10), "en")) < 20_000
    health = ArchiveHealth(
        {"Original": 1, "Copy": 0, "Deleted": 0}, 0, 0, 10**10, 0, "", 0, 0, 0, [], switched_on=True
    )
    overview = administration_pages.render(Layout(OverviewPage(health, [holding] * 20)), "en", BRANDING)
    assert len(overview) < 30_000


def test_an_unknown_page_has_no_template() -> None:
    with pytest.raises(TypeError):
        render(object(), "en")
