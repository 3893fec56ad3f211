"""The language of an administration: by the browser until a user chooses another; a session keeps the choice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.archive.administration_fixture import PASSWORD, AdministeredArchive, administered_archive


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("office")) as made:
        yield made


def test_a_session_keeps_the_language_that_was_chosen_in_it(served: AdministeredArchive) -> None:
    maria = served.new_browser("maria")
    assert maria.look("/-/admin/items").headers["content-language"] == "en"
    chosen = maria.look("/-/admin/items?after=a&lang=pt-BR")
    assert chosen.headers["content-language"] == "pt-BR"
    assert 'href="?after=a&amp;lang=en"' in chosen.text
    assert 'href="/-/browse?lang=pt-BR"' in chosen.text
    assert maria.look("/-/admin").headers["content-language"] == "pt-BR"
    # A form that was sent is answered in it too, and another browser is not concerned.
    assert maria.send("/-/admin/tokens").headers["content-language"] == "pt-BR"
    assert served.new_browser("maria").look("/-/admin").headers["content-language"] == "en"
    left = maria.send("/-/admin/sign-out")
    assert left.headers["location"] == "/-/admin/sign-in?done=signed-out&lang=pt-BR"


def test_a_language_chosen_before_signing_in_is_that_of_the_session(served: AdministeredArchive) -> None:
    stranger = served.new_browser()
    answer = stranger.look("/-/admin/items?lang=pt-BR")
    page = stranger.gone_to(answer)
    assert page.headers["content-language"] == "pt-BR"
    assert not stranger.cookies
    assert 'action="/-/admin/sign-in?lang=pt-BR"' in page.text
    fields = (("name", "maria"), ("password", PASSWORD))
    wrong = stranger.post("/-/admin/sign-in?lang=pt-BR", ("name", "maria"), ("password", "x"))
    assert wrong.headers["content-language"] == "pt-BR"
    assert stranger.post("/-/admin/sign-in?lang=pt-BR", *fields).status == 303
    assert stranger.look("/-/admin").headers["content-language"] == "pt-BR"
