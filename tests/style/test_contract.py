"""What the reference pages of docs/reference/contract.md promise is compared with the program, in both directions."""

from __future__ import annotations

import argparse
import json
import re
import runpy
from dataclasses import fields
from hashlib import sha256

from ibi.archive.api.imports import IMPORT_MEDIA_TYPES
from ibi.archive.ingest.importing import ENDINGS, IMPORT_FORMATS
from ibi.archive.model.item_json import FIELDS
from ibi.archive.service.admission import COSTS
from ibi.cli.inspect import inspect
from ibi.http import cors
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import ITEM
from ibi.protocol.url_list import Entry, UrlList, WantedEntry
from ibi.resolver.model.alert import STATUS, Alert, AlertKind, in_english
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect, UpstreamRedirect
from ibi.resolver.resolve.resolver import RoundTrace, Trace
from ibi.runtime.settings import ResolverSettings
from ibi.web.formats import FORMATS, RECORD_FORMATS
from support.resolver.resolution import archive_of
from support.style.layers import ROOT, modules

REFERENCE = ROOT / "docs/reference"
COMMANDS_PAGE, FORMATS_PAGE, HTTP_PAGE = (
    (REFERENCE / f"{name}.md").read_text(encoding="utf-8") for name in ("commands", "formats", "http")
)
PROMISED = ("commands", "formats", "http", "operations", "settings")
"""The pages that docs/reference/contract.md links to, in docs/reference."""
SERVICES = (
    *("archive.pages.site", "archive.service.service", "archive.pages.search_pages", "archive.oai.provider"),
    *("resolver.pages.site", "resolver.service", "resolver.pages.programs", "minting.service"),
    *("accounts.layout", "web.assets"),
)


TOOL = runpy.run_path(str(ROOT / "tools/reference_pages.py"))
COMMANDS: dict[str, argparse.ArgumentParser] = dict(TOOL["commands"]())
SECTIONS = dict(
    re.findall(r"^## `(ibi [a-z -]+)`\n(.*?)(?=^## |\Z)", COMMANDS_PAGE, re.MULTILINE | re.DOTALL)
)


def _table(text: str, head: str) -> list[list[str]]:
    """The rows of the table that begins with this head, as cells."""
    found = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"there is no table with the head {head}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


def _names(text: str, head: str) -> list[str]:
    """The names in the first column of a table."""
    return [name for cells in _table(text, head) for name in re.findall(r"`([^`]+)`", cells[0])]


def test_the_contract_links_to_every_page_that_promises_something() -> None:
    contract = (ROOT / "docs/reference/contract.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(([a-z]+)\.md\)", contract)) == {*PROMISED, "library", "limits", "routes"}


def test_the_page_has_a_section_for_every_command_and_for_no_other() -> None:
    assert sorted(SECTIONS) == sorted(name for name, parser in COMMANDS.items() if TOOL["shown"](parser))


def test_what_the_pages_take_from_the_program_is_current() -> None:
    pages = TOOL["pages"]()
    assert {path.name for path in pages} == {"commands.md", "settings.md", "routes.md"}
    assert [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text] == [], (
        "run: make docs"
    )


def test_a_table_of_arguments_says_what_must_be_given_what_may_be_and_by_default() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", required=True, metavar="HOST[:PORT]", help="where; as --to has it")
    parser.add_argument("--to", choices=("a", "b"), default="a", help="one (default: %(default)s)")
    parser.add_argument("name", metavar="NAME", help="yes|no")
    assert TOOL["table_of_arguments"](parser).splitlines()[2:] == [
        "| **`NAME`** | yes\\|no |",
        "| **`--at` `HOST[:PORT]`** | where; as `--to` has it |",
        "| `--to` | one: `a`, `b`; by default `a` |",
    ]


def test_every_argument_says_what_it_is_for() -> None:
    silent = [
        (name, action.dest)
        for name, parser in COMMANDS.items()
        for action in TOOL["arguments"](parser)
        if not action.help
    ]
    assert silent == []


def test_every_setting_has_its_row() -> None:
    table = TOOL["table_of_settings"](ResolverSettings)
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, re.MULTILINE))
    assert list(listed) == [field.name for field in fields(ResolverSettings)]
    assert listed["connect_seconds"] == "`1.0`"


def test_every_option_in_the_text_exists_somewhere() -> None:
    known = {
        option
        for parser in COMMANDS.values()
        for each in TOOL["arguments"](parser)
        for option in each.option_strings
    }
    text = "".join((REFERENCE / f"{name}.md").read_text(encoding="utf-8") for name in PROMISED)
    assert set(re.findall(r"--[a-z][a-z-]*", text)) - known == {"--help", "--version"}


def test_the_fields_of_an_item_are_those_that_are_read() -> None:
    section = FORMATS_PAGE.partition("## Items as JSON lines")[2]
    assert sorted(_names(section, "field")) == sorted(FIELDS)


def test_the_help_of_import_lists_the_same_fields() -> None:
    listed = re.findall(
        r"^  ((?:[a-z_]+, )*[a-z_]+)  +", COMMANDS["ibi archive import"].epilog or "", re.MULTILINE
    )
    assert sorted(name for names in listed for name in names.split(", ")) == sorted(FIELDS)


def test_the_formats_of_an_item_are_those_that_are_written() -> None:
    written = {each.name: set(each.media_types) for each in FORMATS}
    section = FORMATS_PAGE.partition("## Formats of an item")[2]
    listed = {
        cells[0].strip("`"): set(re.findall(r"`(\w+/[^`]+)`", cells[1])) for cells in _table(section, "name")
    }
    assert listed == written
    shown = re.search(r"^Formats are (.*)\.$", SECTIONS["ibi archive show"], re.MULTILINE)
    assert shown
    assert re.findall(r"`([^`]+)`", shown[1]) == list(written)


def test_the_formats_for_harvesters_are_those_that_are_written() -> None:
    listed = set(_names(HTTP_PAGE, "word of the protocol")) - {"resumptionToken"}
    assert listed == {each.prefix for each in RECORD_FORMATS}


def test_the_formats_that_can_be_imported_are_those_that_are_read() -> None:
    [option] = [
        each
        for each in TOOL["arguments"](COMMANDS["ibi archive import"])
        if "--format" in each.option_strings
    ]
    assert list(option.choices) == list(IMPORT_FORMATS)
    listed = re.search(r"`format` is (.*?); without it", HTTP_PAGE)
    assert listed
    assert re.findall(r"`([^`]+)`", listed[1]) == list(IMPORT_FORMATS)
    form = (ROOT / "src/ibi/web/templates/admin_import.html").read_text(encoding="utf-8")
    offered = re.search(r"for value, words in (.*?) %", form)
    assert offered
    assert {value for value, _ in re.findall(r'\("(\w+)", "([^"]+)"\)', offered[1])} == set(IMPORT_FORMATS)


def test_each_format_that_can_be_imported_is_found_by_a_media_type_and_by_the_ending_of_a_name() -> None:
    assert set(IMPORT_MEDIA_TYPES.values()) == set(IMPORT_FORMATS)
    assert set(ENDINGS.values()) == set(IMPORT_FORMATS) - {"jsonl"}


def test_inspect_gives_the_keys_that_the_page_lists() -> None:
    texts = (
        "http://urlib.net/sid.inpe.br/mtc-m18@80/2009/07.21.14.43!",
        "8JMKD3MGP8W/35MMLL8",
        "6RPa7umaZ/UaJFT",
    )
    given = {key for text in texts for key in json.loads(inspect(text).json())}
    assert given == set(_names(SECTIONS["ibi inspect"], "key"))


def test_the_kinds_of_alerts_and_their_statuses_are_those_of_the_resolver() -> None:
    rows = _table(HTTP_PAGE, "kind")
    assert {cells[0].strip("`"): int(cells[1]) for cells in rows} == {str(k): s for k, s in STATUS.items()}


def test_the_members_of_an_explanation_are_those_that_are_written() -> None:
    section = HTTP_PAGE.partition("### Explanations")[2]
    archive = archive_of("example/a/2020/01.01.00.00")
    request = UrlRequest(("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"))
    trace = Trace("http://urlib.net/x", Policy(), original_required=False)
    trace.rounds.append(RoundTrace(request, "everybody", 0.0))
    trace.rounds[0].responses.append(ArchiveResponse(archive, UrlList({}), at=0.004))
    found = WantedEntry(ITEM, Entry())
    redirect = Redirect("http://a.example/x", archive, found, None, UrlList({}))
    for decision in (Alert(AlertKind.NOT_FOUND), redirect, UpstreamRedirect("http://other.example/x")):
        written = Explanation(decision, trace).as_dict(in_english)
        assert _names(section, "member of an explanation") == list(written)
        assert _names(section, "member of a round") == list(written["rounds"][0])
        assert _names(section, "member of a statement") == list(written["rounds"][0]["statements"][0])
        [outcome] = [
            cells[1] for cells in _table(section, "member of an explanation") if "outcome" in cells[0]
        ]
        assert set(re.findall(r"`([^`]+)`", outcome)) >= set(written["outcome"])


def test_the_pages_under_the_hyphen_are_those_of_the_services() -> None:
    served = {page for name in SERVICES for page in re.findall(r"/-/([a-z]+)", modules()[name].text)}
    assert set(re.findall(r"/-/([a-z]+)", HTTP_PAGE)) == served


ARCHIVE_PAGES = SERVICES[:4]
UNCOUNTED = {"about", "healthz", "holdings", "nonce", "programs", "readyz", "sitemap"}
"""Pages of an Archive that cost no reader anything."""
OF_OUR_ORIGIN = {"files", "healthz", "holdings", "nonce", "readyz", "zip"}
"""Pages of an Archive that pages of other origins may not read."""


def test_what_a_page_of_an_archive_costs_and_who_may_read_it_was_decided() -> None:
    served = {page for name in ARCHIVE_PAGES for page in re.findall(r"/-/([a-z]+)", modules()[name].text)}
    assert served - {path.split("/")[2] for path in COSTS} == UNCOUNTED
    shared = {
        path.split("/")[2] for path in (*cors.ARCHIVE.whole, *cors.ARCHIVE.below) if path.startswith("/-/")
    }
    assert served - shared == OF_OUR_ORIGIN


UNPLAYED = {"busy", "no-such-page", "too-far", "too-long", "too-many", "wrong-host"}
"""Kinds of alerts that no answer causes; and `too-far`, which needs more editions than a play can have."""


def test_a_play_shows_each_kind_of_alert_that_answers_cause() -> None:
    plays = [play.read_text("utf-8") for play in (ROOT / "conformance/scenarios").glob("*.play")]
    played = {kind for play in plays for kind in re.findall(r"\bALERT ([a-z-]+)", play)}
    assert set(AlertKind) - played == UNPLAYED


MIGRATIONS = {
    "archive/store/schema/0001_catalogue.py": "4f545437453b6934",
    "archive/store/schema/0002_keeping.py": "525aebfabd2f2540",
    "archive/store/schema/0003_changes.py": "ba8afd631b886dfd",
    "archive/store/schema/0004_editions.py": "4cec7a89c3fbd824",
    "archive/store/schema/0005_unsettled.py": "435f7da134c6a6dc",
    "archive/store/schema/0006_feed.py": "973cab879b67391d",
    "archive/store/schema/0007_institution.py": "83aa3cf2644c88a6",
    "archive/store/schema/0008_replacement.py": "7360451fb0a0bc66",
    "archive/store/schema/0009_change_words.py": "d4602579dedcecbe",
    "archive/store/schema/0010_followed_archives.py": "17adf18aed7d54e9",
    "archive/store/schema/postgresql/0010.sql": "f3a5b05a84052356",
    "resolver/registry/0001_archives.py": "6abbd04bff938cd4",
    "resolver/registry/0002_membership.py": "81d17e2fd0193372",
    "resolver/registry/0003_exclusion.py": "40d2ea0b5b07ebc7",
    "resolver/registry/0004_title.py": "532efa3a57668922",
    "resolver/registry/0005_title_pt.py": "75e5f06732a90b76",
    "resolver/shared/0001_resolver.py": "9e78294d4c4548b1",
    "runtime/shared/0001_shared.py": "f3dea326fc90bb4a",
    "runtime/shared/0002_uploads.py": "9a26502918b6a847",
}


def test_no_published_migration_changes() -> None:
    """What ran in a data directory is never run there again, so a change of it would reach new ones alone.

    A new migration gets its line here.
    """
    found = {
        path.relative_to(ROOT / "src/ibi")
        .as_posix()
        .replace("migrations/", "")
        .replace("versions/", ""): path
        for path in (ROOT / "src/ibi").rglob("migrations/*/[0-9]*")
        if path.suffix in {".py", ".sql"}
    }
    digests = {name: sha256(path.read_bytes()).hexdigest()[:16] for name, path in found.items()}
    assert digests == MIGRATIONS


LAST_BEFORE_NODES = {"archive/store/schema": "0010", "resolver/shared": "0001", "runtime/shared": "0001"}
"""Folders of migrations that run on a store of several nodes -> the last one before nodes of two versions."""


def test_each_new_migration_says_whether_it_only_adds() -> None:
    """If it only adds, nodes of the version before go on with the database."""
    silent = [
        path.name
        for folder, last in LAST_BEFORE_NODES.items()
        for path in (ROOT / "src/ibi" / folder / "migrations/versions").glob("[0-9]*.py")
        if path.name[:4] > last
        if not re.search(r"^only_adds = (True|False)$", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert silent == []
