"""Pages of operations as people read them, and those that acts have of their own: the same fields and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from ibi.api.fields import described
from ibi.archive.operations import settings
from ibi.archive.operations.ingest import ImportFields
from ibi.cli import main
from support.archive.archive_fixture import REP
from support.archive.three_ways import BY_NAME, OWN_PAGES, Given, Ways, problem_of
from support.web.html_form import forms_of

PORTUGUESE = "pt-BR"


def test_the_many_settings_stand_under_headings(ways: Ways) -> None:
    page = ways.root.look("/-/admin/do/set").text
    form = page.partition('<form class="entry"')[2].partition("</form>")[0]
    headings = re.findall(r"<h2>([^<]*)</h2>", form)
    assert headings == [group.heading for group in settings.SET.groups]
    shown = re.findall(r'<(?:input|select|textarea) id="(\w+)"', form)
    assert shown == [name for group in settings.SET.groups for name in group.names]
    assert sorted(shown) == sorted(each.name for each in described(settings.SettingsFields) if not each.local)


def test_states_and_names_of_jobs_are_words_in_the_language_of_the_reader(ways: Ways) -> None:
    assert ways.by_json(BY_NAME["check"], {}).refusal == ""
    job = ways.by_json(BY_NAME["jobs"], {}).result["jobs"][0]
    assert (job["state"], job["operation"]) == ("done", "check")  # of programs
    for path in ("/-/admin/do/jobs", f"/-/admin/do/job?id={job['id']}"):
        page = ways.root.look(path, PORTUGUESE).text
        assert "concluída" in page
        assert ">done<" not in page
        assert "ver se o Arquivo está íntegro" in page


NOT_ON_ITS_PAGE = {
    "deposit": {
        "rep": "names are chosen by programs and imports", "ibip": "as rep", "timestamp": "as rep", "aliases": "as rep",
        "state": "what is deposited is an original", "reason": "a new item is not removed",
        "replacement": "as reason",
        "key": "the form has its own",
        "uploads": "its files are parts of the form", "metadata": "a field for each element",
        "target": "chosen among its files, once they are there", "metadata_of": "a link for programs",
        "metadata_as_item": "a link for programs", "next_edition": "made by the deposit of the next edition",
        "translations": "made by the deposit of a translation", "metadata_item": "a link for programs",
        "formats": "a link for programs", "institution": "what is deposited is of this one",
    },
    "edit": {
        "uploads": "on the page of files", "without": "on the page of files",
        "metadata": "a field for each element", "next_edition": "made by the deposit of the next edition",
        "translations": "made by the deposit of a translation", "metadata_item": "a link for programs",
        "formats": "a link for programs",
    },
    "put-file": {"file": "the name of the chosen file", "upload": "the chosen file"},
}  # fmt: skip
"""Fields that the page of its own of an act has not, each with the reason."""

NO_FIELD = {
    "form_token": "proves where the form is from", "what": "which act", "sure": "a confirmation",
    "since": "the version that was seen", "version": "the same", "once": "the Idempotency-Key", "file": "a file",
}  # fmt: skip
"""Names in forms that are no field of an operation, with the reason."""

_FORM_OF_AN_ITEM = {
    "kind": "what it is: an element `type`",
    "doi": "an element `identifier`",
    "subjects": "elements `subject`",
    "subjects.lang": "their language",
    "language_other": "a language in no list",
    "licence_url": "a licence in no list",
    "step": "what the form was sent for",
    **dict.fromkeys(
        ("who", "who.family", "who.given", "who.lang", "who.orcid", "who.role", "who.text"),
        "creators and contributors",
    ),
}
BESIDE = {
    "deposit": _FORM_OF_AN_ITEM,
    "edit": _FORM_OF_AN_ITEM,
    "put-file": {"without": "files that go", "target": "the file that is shown first"},
    "take-out-file": {"target": "the file that is shown first"},
}
"""Fields of `edit` that stand in the form of another act on files."""


@pytest.fixture
def shown(ways: Ways) -> Iterator[str]:
    """An item whose pages have each form: there are a peer, a resolver, a token and a hand-over under way."""
    made = ways.program("POST", "/items", b'{"metadata": {"title": ["T"]}}', content_type="application/json")
    ibi = json.loads(made.body)["rep"]
    prepared: list[tuple[str, Given]] = [
        ("put-file", {"ibi": ibi, "file": "a.txt", "upload": b"words"}),
        ("peer", {"name": "shown", "address": "http://127.0.0.1:8099", "token": "t"}),
        ("join", {"resolver": "http://127.0.0.1:8099"}),
    ]
    for name, given in prepared:
        assert ways.by_command(BY_NAME[name], given).refusal == ""
    assert ways.by_json(BY_NAME["hand-over"], {"ibi": ibi, "to": "shown"}).refusal == ""
    yield ibi
    ways.by_command(BY_NAME["leave"], {"resolver": "http://127.0.0.1:8099"})
    ways.by_command(BY_NAME["forget-peer"], {"name": "shown"})


@pytest.mark.parametrize("name", OWN_PAGES)
def test_a_page_of_its_own_has_the_fields_of_its_act(ways: Ways, shown: str, name: str) -> None:
    own, operation = OWN_PAGES[name], BY_NAME[name]
    form = ways.own_form(operation, {"ibi": shown})[1]
    named = {own.called.get(each.name, each.name) for each in described(operation.fields)} - own.places
    names = {each for each in form.names if not each.startswith(("dc.", "was."))} - NO_FIELD.keys()
    assert named - names == NOT_ON_ITS_PAGE.get(name, {}).keys()
    assert names - named == BESIDE.get(name, {}).keys(), sorted(names - named - BESIDE.get(name, {}).keys())


@pytest.mark.parametrize("name", ["state", "settings", "peers", "backups", "jobs"])
def test_a_page_that_shows_something_at_once_is_there_in_each_language(ways: Ways, name: str) -> None:
    assert ways.root.look(f"/-/admin/do/{name}?lang=pt-BR").status == 200
    assert ways.root.look(f"/-/admin/do/{name}?lang=en").status == 200


def test_an_edit_of_nothing_is_refused_by_every_way(ways: Ways) -> None:
    given = {"ibi": REP}
    over_json = json.loads(ways.request(BY_NAME["edit"], given, if_match="*").body)["detail"]
    on_page = ways.by_page(BY_NAME["put-file"], given).refusal
    assert "nothing to change was given" in over_json
    assert on_page == over_json[:1].upper() + over_json[1:]
    assert ways.by_command(BY_NAME["edit"], given).refusal == over_json


IMPORT = "/-/admin/import"
RECORDS = ("file", "a.csv", b"title\nT\n")


def test_both_forms_of_an_import_have_its_fields(ways: Ways) -> None:
    first = ways.root.look(IMPORT)
    second = ways.root.send_files(IMPORT, RECORDS, ("update", None, b"yes"))
    shown = [next(each for each in forms_of(page.text) if each.action == IMPORT) for page in (first, second)]
    # The first form does the dry run; the name of the file is shown to the client again.
    known = {each.name for each in described(ImportFields)} - {"dry"}
    assert [each.names - {*NO_FIELD, "name"} for each in shown] == [known - {"upload"}, known]


@pytest.mark.parametrize(("name", "text"), [("format", "xls"), ("update", "perhaps")])
def test_a_bad_word_of_an_import_is_refused_with_one_sentence_by_every_way(
    ways: Ways, name: str, text: str
) -> None:
    over_json = json.loads(ways.program("POST", f"/imports?{name}={text}", b"x").body)["detail"]
    ways.root.look(IMPORT)
    answer = ways.root.send_files(IMPORT, RECORDS, (name, None, text.encode()))
    assert over_json.startswith(f"{name} is ")
    assert (answer.status, problem_of(answer)) == (422, over_json)
    marked = re.findall(r'id="(\w+)"[^>]* aria-invalid="true"', answer.text)
    assert marked == [name]
    if name == "format":  # the other is an option without a value
        ways.capsys.readouterr()
        with pytest.raises(SystemExit):
            main(["archive", "import", "a.csv", "--format", text, "--data", str(ways.data)])
        assert ways.capsys.readouterr().err.strip().endswith(f": --{over_json}")
