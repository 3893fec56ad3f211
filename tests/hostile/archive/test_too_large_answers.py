"""Items about which an answer would be longer than a resolver reads: no Archive takes them in (threat T10)."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from string import ascii_lowercase as letters
from typing import Any

import pytest

from ibi.accounts.tokens import Scope
from ibi.archive.model.item_json import read_item
from ibi.errors import BadItem
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import Relation, Step, StepKind
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from support.archive.api_fixture import path_of
from support.archive.archive_fixture import SERVICE
from support.archive.replication_fixture import NAME, make_archive
from support.archive.running_archive import running_archive
from support.programs import Program, Reply

HELD, TOO_MANY = 700, 768
TITLE = {"metadata": {"title": ["A title"]}}
LANGUAGES = ["".join(each) for each in product(letters, repeat=2)]
LANGUAGES += [f"{language}-{country.upper()}" for language, country in product(LANGUAGES[:8], LANGUAGES)]
LIMITS = "at most 768 of them, 3072 pairs and 196608 bytes"


def translations(count: int) -> dict[str, Any]:
    """So many links to items elsewhere."""
    link = "far{}.example/w/2020/01.01.00.00"
    return {"translations": {language: link.format(at) for at, language in enumerate(LANGUAGES[:count])}}


def answer_of(program: Program, name: str, *kinds: StepKind) -> Reply:
    verbs = VerbList.of(Relation(tuple(map(Step, kinds))))
    request = UrlRequest(("192.0.2.1",), parse_ibi(name), "", verbs)
    return program.get(f"/{SERVICE.rep}?{request.query()}")


def test_what_could_not_be_answered_is_refused_with_the_limits_and_what_is_held_is_answered(
    tmp_path: Path,
) -> None:
    with running_archive(tmp_path / "archive") as program:
        refused = program.ask("POST", "/items", TITLE | translations(5400), Scope.DEPOSIT)
        assert LIMITS in refused.content(422)["detail"]
        for language, words in (("pt-BR", "no máximo 768"), ("en", LIMITS)):
            refused = program.ask(
                "POST", "/items", TITLE | translations(TOO_MANY), Scope.DEPOSIT, accept_language=language
            )
            assert words in refused.content(422)["detail"]

        item = path_of(program.ask("POST", "/items", TITLE | translations(HELD), Scope.DEPOSIT))
        edit = program.ask("PATCH", item, translations(TOO_MANY), Scope.EDIT, if_match="*")
        assert LIMITS in edit.content(422)["detail"]
        formats = {f"f{number}": f"http://far.example/{'x' * 8000}/{number}" for number in range(30)}
        edit = program.ask("PATCH", item, {"formats": formats}, Scope.EDIT, if_match="*")
        assert LIMITS in edit.content(422)["detail"]

        answer = answer_of(program, item.removeprefix("/items/"), StepKind.TRANSLATION)
        assert answer.status == 200
        assert len(UrlList.read(answer.body).relations_of("ibi")) > HELD

        lines = [{**TITLE, **translations(count), "key": str(count)} for count in (3, TOO_MANY)]
        body = "\n".join(map(json.dumps, lines)).encode()
        for dry in ("yes", "no"):
            path = f"/imports?format=jsonl&dry={dry}"
            report = program.ask("POST", path, body, Scope.ADMIN, content_type="application/jsonl").content()
            assert (report["added"], report["refused"]) == (1, 1)
            assert LIMITS in report["refusals"][0]["problem"]


def test_a_question_whose_answer_links_of_several_items_make_too_long_is_refused_alone(
    tmp_path: Path,
) -> None:
    """Sixty items, each a translation of all: translations of metadata of translations are thousands."""
    names = [f"a.example/w/2020/01.01.00.{number:02}" for number in range(60)]
    links = dict(zip(LANGUAGES, names, strict=False))
    items = [{"rep": name, "translations": links, "metadata_item": name, **TITLE} for name in names]
    with running_archive(tmp_path / "archive") as program:
        body = "\n".join(map(json.dumps, items)).encode()
        path, kind = "/imports?format=jsonl", "application/jsonl"
        assert program.ask("POST", path, body, Scope.ADMIN, content_type=kind).content()["added"] == 60
        assert (
            len(UrlList.read(answer_of(program, names[0], StepKind.TRANSLATION).body).relations_of("url"))
            == 60
        )
        refused = answer_of(program, names[0], StepKind.TRANSLATION, StepKind.METADATA, StepKind.TRANSLATION)
        assert (refused.status, len(refused.body) < 200) == (400, True)
        assert answer_of(program, names[0]).status == 200


def test_neither_copies_nor_originals_from_another_archive_are_exempt(tmp_path: Path) -> None:
    there, here = make_archive(tmp_path, 1), make_archive(tmp_path, 2)
    # As an older version, or another program, held it.
    draft = read_item({"rep": NAME, "url": "http://far.example/", **translations(TOO_MANY)})
    with there.directory.catalogue() as catalogue:
        catalogue.put(draft.holding(IBIForms.of(parse_ibi(NAME)), "2020-01-01T00:00:00Z"))
    with there.served(), pytest.raises(BadItem, match=LIMITS):
        here.copy(archive=there.root)
    assert here.holding() is None
