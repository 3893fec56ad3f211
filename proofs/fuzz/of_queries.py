"""The parsers of what readers, harvesters and programs ask an Archive for."""

from __future__ import annotations

from typing import Final

from ibi.api.bodies import json_object, read_json
from ibi.api.fields import read, read_texts
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.oai.lists import ListPosition, ResumptionTokens
from ibi.archive.oai.request import OaiError, read_request
from ibi.archive.operations.settings import SettingsFields
from ibi.archive.search.words import SearchQuery, match_expression
from ibi.archive.search.words import read_search_query as read_search
from ibi.http.handle_records import WantedValues
from ibi.http.response import Refusal
from ibi.resolver.evidence.reading import entry_filter
from ibi.resolver.members.settings_changes import CHANGEABLE_BY_COMMAND, checked_setting
from ibi.resolver.operations.registrations import RegisterFields
from proofs.fuzz.of_archives import records
from proofs.fuzz.target import Target

_TOKENS: Final = ResumptionTokens(b"a secret of the fuzz", lambda: 1_700_000_000.0)
_PLACE: Final = ListPosition(
    "ListRecords", "oai_dc", "kind-Dataset", 0, None, 1_699_999_999, 7, 100, 1_000, _TOKENS.expiry()
)
_RIS: Final = (
    "TY  - JOUR\r\nTI  - A title\r\nAU  - Silva, M.\r\nPY  - 2010/02/03\r\nUR  - http://a.example/x\r\nER  - \r\n",
    "TY  - THES\nT1  - Uma tese\nAB  - Um resumo\n  que continua\nLA  - pt\nDO  - 10.1/x\nID  - k\nER  -\n",
)


def _changes(value: object) -> list[object]:
    """What a body wants settings to be."""
    return [checked_setting(name, each, CHANGEABLE_BY_COMMAND) for name, each in json_object(value).items()]


def _search(raw: str) -> SearchQuery:
    """The question, and what it becomes for the index."""
    question = read_search(raw)
    for known in (True, False):
        match_expression(question, known=known, begun=known, only="title")
    return question


QUERIES: Final = (
    Target(
        "archive.search.words.read_search_query", _search, "line",
        ("text=a+b+%22c+d%22", "person=Silva%2C+M.&year=2010&language=pt&kind=Dataset&page=2",
         "text=NEAR(a*)&before=7"),
        "query",
    ),
    Target(
        "archive.oai.request.read_request", read_request, "line",
        ("verb=ListRecords&metadataPrefix=oai_dc&from=2010-01-01&until=2010-02-01T00:00:00Z&set=kind-Dataset",
         "verb=GetRecord&identifier=oai:a.example:b/2010/01.01.00.00&metadataPrefix=oai_dc",
         f"verb=ListRecords&resumptionToken={_TOKENS.write(_PLACE)}"),
        "query", refuses=(OaiError,),
    ),
    Target(
        "archive.oai.lists.ResumptionTokens.read", lambda text: _TOKENS.read(text, "ListRecords"),
        seeds=(_TOKENS.write(_PLACE),),
    ),
    Target("http.handle_records.WantedValues.read", WantedValues.read, "line",
           ("type=URL&index=1&pretty", "index=7&index=8"), "query"),
    Target("archive.ingest.sources.ris.read_ris", records(read_ris), "bytes", _RIS),
    Target(
        "api.fields.read", lambda body: read(RegisterFields, read_json(body)), "bytes",
        values=({"ibi": "a.example/b/2010/01.01.00.00", "url_hosts": ["a.example"], "mail": "a@b.example"},),
        refuses=(Refusal,),
    ),
    Target(
        "api.fields.read_texts", lambda text: read_texts(SettingsFields, {"page_rate": [text], "aliases": [text]}),
        seeds=("0.5", "1e400", "nan", "\uff17"),
    ),
    Target(
        "resolver.evidence.reading.entry_filter", lambda text: entry_filter(text, text), seeds=("8JMKD3MGP8W/35MMLL8",)
    ),
    Target(
        "resolver.members.settings_changes.changed", lambda body: _changes(read_json(body)), "bytes",
        refuses=(Refusal,),
        values=({"policy": "strict", "archive_seconds": 2.5, "request_burst": 40, "admin": "a@b.example"},
                {"aliases": "a.example,b.example:81", "metrics_networks": "10.0.0.0/8", "registration": "form"}),
    ),
)  # fmt: skip
