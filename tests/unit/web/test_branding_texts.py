"""What an institution shows on every page, whole, and what stands in its place; its pictures and its colours."""

from __future__ import annotations

import pytest

from ibi.runtime.settings.institution import Institution
from ibi.web.branding import Branding, BrandingTexts, branding_of
from ibi.web.licences import WORDS, Licence, licence_of

NONE: tuple[str, ...] = ()


def test_an_institution_without_texts_is_named_by_its_address() -> None:
    plain = BrandingTexts(
        "Archive a.example", "", "", "", "", True, False, True, "", NONE, NONE, NONE, NONE, NONE, "", ""
    )
    assert Branding(address="a.example").texts("en") == plain
    resolver = Branding(address="a.example", is_archive=False, registers=True, admin="me@a.example")
    assert resolver.texts("pt-BR") == plain._replace(
        name="Resolvedor a.example", is_archive=False, registers=True, contact="me@a.example",
        contact_url="mailto:me@a.example",
    )  # fmt: skip
    assert (
        branding_of(Institution(), "a.example", "me@a.example", is_archive=False, registers=True) == resolver
    )
    assert not branding_of(Institution(), "", "", is_archive=True).registers


def test_texts_are_paragraphs_in_the_language_of_the_reader() -> None:
    institution = Institution(
        name="Institute",
        name_pt="Instituto",
        subtitle="of names",
        welcome="Welcome\nfirst  line\nof it\n\n\nsecond",
        about="a\n\n \n\nb",
        policies="p",
        privacy="q",
        postal_address="Street 1\nTown",
        contact="https://a.example/contact/",
        font="ours",
        colour="#0b6b5d",
    )
    texts = Branding(institution).texts("en")
    assert texts == BrandingTexts(
        "Institute", "of names", texts.brand, "", "", True, False, True, "Welcome", ("first line of it", "second"),
        ("a", "b"), ("p",), ("q",), ("Street 1", "Town"), "a.example/contact", "https://a.example/contact/",
    )  # fmt: skip
    assert texts.brand.endswith(".css")
    assert Branding(institution).texts("pt-BR").name == "Instituto"


@pytest.mark.parametrize(
    ("contact", "shown", "url"),
    [
        ("http://a.example", "a.example", "http://a.example"),
        ("me@a.example", "me@a.example", "mailto:me@a.example"),
        ("", "", ""),
    ],
)
def test_a_contact_is_a_page_or_an_address(contact: str, shown: str, url: str) -> None:
    texts = Branding(Institution(contact=contact)).texts("en")
    assert (texts.contact, texts.contact_url) == (shown, url)


@pytest.mark.parametrize(
    ("url", "name", "kind"),
    [
        *[(f"https://creativecommons.org/licenses/{kind}/4.0/", f"CC {kind.upper()} 4.0", kind)
          for kind in ("by", "by-sa", "by-nc", "by-nc-sa", "by-nd", "by-nc-nd")],
        (" HTTP://www.CreativeCommons.org/publicdomain/ZERO/1.0 ", "CC0 1.0", "zero"),
        ("http://creativecommons.org/publicdomain/mark/1.0#x", "Public Domain Mark 1.0", "mark"),
    ],
)  # fmt: skip
def test_a_licence_has_the_words_of_its_kind(url: str, name: str, kind: str) -> None:
    assert licence_of(url) == Licence(name, WORDS[kind])


@pytest.mark.parametrize(
    "url",
    ["https://creativecommons.org/licenses/by/4.0x", "https://creativecommons.org/licenses/by/٤.0/", "x"],
)
def test_any_other_licence_is_named_by_its_url_alone(url: str) -> None:
    assert licence_of(url) == Licence(url, "")
