"""How an institution presents itself: shown and changed by programs, and on its page with a preview."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.tokens import Scope
from ibi.api.fields import NoFields
from ibi.api.institution import GROUPS, InstitutionFields, change, facts_of, show
from ibi.api.institution_pages import PICTURES, IdentityPage, IdentityPages
from ibi.api.operations import check_version, etag_of
from ibi.errors import BadField, Conflict
from ibi.runtime.settings.institution import Institution, data_url
from support.acts.visits import visit

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
LOGO = data_url(SVG)
USUAL = facts_of(Institution())


class Identity:
    """The page of one data directory."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.if_match = ""
        self.handler = IdentityPages(lambda _: self).handlers()["identity"]

    def check_match(self, present: Any) -> None:
        check_version(self.if_match, present)

    @property
    def kept(self) -> Institution:
        return Institution.of(self.data)

    @property
    def version(self) -> str:
        return etag_of({"institution": facts_of(self.kept)})

    def show(self, *typed: tuple[str, str], files: Any = None) -> Any:
        form = Form(typed, files or {}) if typed or files else None
        return self.handler.show(visit(), form)

    def send(self, *typed: tuple[str, str], files: Any = None) -> Any:
        return self.handler.do(visit(), Form(typed, files or {}))


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity(tmp_path)


def refused(act: Any, *words: Any, **named: Any) -> tuple[str, Any]:
    with pytest.raises(BadField) as caught:
        act(*words, **named)
    return str(caught.value), caught.value.details["name"] if caught.value.details else None


def test_all_that_is_given_is_changed_or_nothing(identity: Identity) -> None:
    assert show(identity, NoFields()) == {"institution": USUAL}
    found = change(identity, InstitutionFields(name="Institute", colour="#F00", font="ours"))
    after = {**USUAL, "name": "Institute", "colour": "#ff0000"}
    assert found == {"institution": after, "changed": ["name", "colour"]}
    assert show(identity, NoFields()) == {"institution": after}
    (identity.data / Institution.FILE).touch()
    assert change(identity, InstitutionFields(name="Institute")) == {"institution": after, "changed": []}
    assert refused(change, identity, InstitutionFields()) == ("nothing to change was given", None)
    with pytest.raises(Exception, match="colour is"):
        change(identity, InstitutionFields(name="Other", colour="red"))
    identity.if_match = identity.version
    change(identity, InstitutionFields(name=""))
    with pytest.raises(Conflict):
        change(identity, InstitutionFields(name="Other"))
    assert identity.kept == Institution(colour="#ff0000")


def test_what_is_not_given_is_written_nowhere(identity: Identity) -> None:
    change(identity, InstitutionFields(font="ours"))
    assert not Institution.exists(identity.data)


def test_the_form_has_what_is_kept_under_its_headings(identity: Identity) -> None:
    Institution(name="Institute", logo=LOGO).write(identity.data)
    page = identity.show()
    facts = {**USUAL, "name": "Institute", "logo": LOGO}
    assert page == IdentityPage(facts, facts, identity.version)
    assert [(heading, [each.name for each in known]) for heading, known in page.groups] == [
        (heading, list(names)) for heading, names in GROUPS
    ]
    assert [each.name for each in page.pictures] == ["logo", "cover"] == list(PICTURES)
    shown = {each.name for _, known in page.groups for each in known} | set(PICTURES)
    assert shown == {each.name for each in page.fields} == {each.name for each in fields(Institution)}
    assert (identity.handler.scope, identity.handler.small_files) == (Scope.ADMIN, True)


def test_a_preview_shows_what_was_typed_and_keeps_nothing(identity: Identity) -> None:
    typed = (
        ("what", "preview"), ("name", "Institute"), ("was.name", ""), ("about", "One\r\nTwo"), ("was.about", ""),
        ("font", "ours"), ("was.font", "ours"),
    )  # fmt: skip
    after = {"name": "Institute", "about": "One\nTwo", "logo": LOGO}
    assert identity.send(*typed, files={"logo": SVG}) == IdentityPage(
        {**USUAL, **after}, USUAL, identity.version, [], Institution(**after), []
    )
    assert identity.kept == Institution()
    Institution(logo=LOGO, cover=LOGO).write(identity.data)
    kept = {**USUAL, "logo": LOGO, "cover": LOGO}
    page = identity.send(("what", "preview"), ("without", "logo"), ("cover", data_url(SVG + b" ")))
    changed = {"logo": "", "cover": data_url(SVG + b" ")}
    assert page == IdentityPage(
        {**kept, "cover": changed["cover"]},
        kept,
        identity.version,
        theirs=[],
        preview=Institution(**changed),
        removed=["logo"],
    )


def test_what_was_typed_is_kept_where_it_is_right_and_of_the_version_that_was_seen(
    identity: Identity,
) -> None:
    here, seen = "/-/admin/identity", identity.version
    assert identity.send(("name", ""), ("was.name", ""), ("font", "ours"), ("was.font", "ours")) == (
        f"{here}?done=unchanged"
    )
    assert (
        identity.send(("colour", "#F00"), ("was.colour", ""), files={"cover": SVG}) == f"{here}?done=identity"
    )
    assert identity.kept == Institution(colour="#ff0000", cover=LOGO)
    assert identity.send(("colour", "#f00"), ("was.colour", "")) == f"{here}?done=unchanged"
    with pytest.raises(Conflict):
        identity.send(("name", "Other"), ("was.name", ""), ("version", seen))
    assert (
        identity.send(("name", "Other"), ("was.name", ""), ("version", identity.version))
        == f"{here}?done=identity"
    )
    assert identity.send(("without", "cover")) == f"{here}?done=identity"
    assert identity.kept == Institution(colour="#ff0000", name="Other")


@pytest.mark.parametrize(
    ("typed", "files", "sentence", "name"),
    [
        ([("colour", "red")], {}, "a colour is # and six hexadecimal digits, such as #0b6b5d, and this is not: red",
         "colour"),
        ([("name", "a\tb")], {}, "name is one line of at most 200 characters", "name"),
        ([("what", "preview"), ("contact", "x")], {}, "contact is a mail address or the URL of a page", "contact"),
        ([], {"logo": b"no picture"}, "logo is a picture of one of these kinds: SVG, PNG", "logo"),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_field(
    identity: Identity, typed: list[tuple[str, str]], files: dict[str, bytes], sentence: str, name: str
) -> None:
    was = [(f"was.{each}", "") for each, _ in typed if each != "what"]
    assert refused(identity.send, *typed, *was, files=files) == (sentence, name)
    assert identity.kept == Institution()


def test_after_a_fault_the_form_shows_what_was_typed_and_what_others_have_changed(identity: Identity) -> None:
    Institution(name="Theirs", subtitle="Same", logo=LOGO).write(identity.data)
    kept = {**USUAL, "name": "Theirs", "subtitle": "Same", "logo": LOGO}
    typed = (
        ("name", "Mine"), ("was.name", ""), ("subtitle", "Same"), ("was.subtitle", ""), ("welcome", "New"),
        ("was.welcome", ""), ("publisher", ""), ("was.publisher", ""), ("without", "logo"), ("cover", "no picture"),
    )  # fmt: skip
    page = identity.show(*typed)
    values = {**kept, "name": "Mine", "subtitle": "Same", "welcome": "New"}
    assert page == IdentityPage(values, kept, identity.version, ["name"], removed=["logo"])
    shown = identity.show(("name", "x"), ("was.name", ""), files={"cover": SVG})
    assert replace(shown, values={}) == IdentityPage({}, kept, identity.version, ["name"], removed=[])
    assert shown.values == {**kept, "name": "x", "cover": LOGO}
