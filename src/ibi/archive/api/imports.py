"""Import files of records, over HTTP and for pages: after a dry run, or at once.

After a dry run the file stays among the uploads of its token for a day, and can be imported by its upload id.
Records that name files are refused, because those files are not on this machine.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ibi.accounts.tokens import Scope
from ibi.api.fields import read_texts
from ibi.api.operations import check_version
from ibi.api.routes import (
    BINARY,
    CHANGING,
    COUNT,
    TEXT,
    TRUTH,
    Route,
    answer,
    in_waiting_thread,
    list_of,
    once,
    record,
)
from ibi.archive.api.received_files import read_file, staged_files
from ibi.archive.ingest.batch import ImportReport, RecordIngest, RecordNotice, RefusedRecord
from ibi.archive.ingest.importing import IMPORT_FORMATS, DryRun, first_records, ingest_file
from ibi.archive.ingest.sources.table import TableColumns, table_columns
from ibi.archive.operations.ingest import ImportFields
from ibi.errors import BadItem, IbiError, NotHeld
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ibi.api.routes import Call
    from ibi.archive.api.uploads import Uploads
    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.response import Response

    ImportResult = tuple[ImportReport, list[RefusedRecord], list[RecordNotice]]
    """The report of an import or a dry run, the first refused records, and the first notices about others."""

LARGEST_IMPORT: Final = 256 << 20
"""Bytes of a file of records over HTTP; the command accepts larger files."""
MOST_SHOWN: Final = 200
"""Refused records, and notices, that a report lists."""

MOST_PREVIEWED: Final = 10
"""Records of a file that are shown as they will be."""

IMPORT_MEDIA_TYPES: Final = {
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/x-bibtex": "bibtex",
    "application/x-research-info-systems": "ris",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
}
"""Media type of a body -> format."""
_YES: Final = {"enum": ["yes", "no"]}
_REPORT: Final = record(
    "upload",
    dry=TRUTH,
    **dict.fromkeys(("added", "changed", "removed", "unchanged", "refused"), COUNT),
    refusals=list_of(record("line", "record", line=COUNT, record=TEXT, problem=TEXT), maxItems=MOST_SHOWN),
    notices=list_of(record("line", "record", line=COUNT, record=TEXT, notice=TEXT), maxItems=MOST_SHOWN),
    upload={"type": "string", "description": "after a dry run: the file, to be taken in with ?upload="},
)


class ImportPreview(NamedTuple):
    """What a file holds: its columns, or fields that items do not have, and its first records."""

    columns: TableColumns
    records: Sequence[SourceRecord]


class Imports:
    """Imports files of records from uploads. Its methods may take long, so call them in a thread."""

    def __init__(self, item_store: ItemStore, uploads: Uploads) -> None:
        self.item_store = item_store
        self._uploads = uploads

    @contextmanager
    def kept(self, who: str, file: StoredFile, metadata: str) -> Iterator[str]:
        """Copy a staged file into an upload; yield the id of the upload, and delete it if the block raises.

        `metadata`: the Upload-Metadata. Raises BadItem, Refusal, SetupError.
        """
        if file.size > LARGEST_IMPORT:
            raise BadItem("the file is too large for this page; use the command: ibi archive import")
        with self.item_store.file_store.open(self.item_store.service, file) as source:
            upload = self._uploads.make_complete(who, source, file.size, metadata)
        try:
            yield upload
        except BaseException:
            with suppress(NotHeld, Refusal):
                self._uploads.delete(upload, who)
            raise

    def try_out(self, who: str, upload: str, kind: str, *, update: bool = False) -> ImportResult:
        """Do a dry run of a file, and keep the upload. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        notices: list[RecordNotice] = []
        dry_run = DryRun(self.item_store, _first(refused), _no_files, _first(notices), update)
        with closing(dry_run), self._uploads.whole(upload, who) as path, path.open("rb") as file:
            ingest_file(dry_run, file, kind)
        return dry_run.report, refused, notices

    def look(self, who: str, upload: str, kind: str) -> ImportPreview:
        """Return the columns of a CSV file and its first records. Raises NotHeld, Refusal, BadItem, SetupError."""
        with self._uploads.whole(upload, who) as path, path.open("rb") as file:
            columns = table_columns(file) if kind == "csv" else TableColumns()
            records = [] if columns.unknown else first_records(file, kind, MOST_PREVIEWED)
        left_out = {name for each in records for name in each.left_out}
        return ImportPreview(TableColumns(columns.known, (*columns.unknown, *sorted(left_out))), records)

    def take(self, who: str, upload: str, kind: str, *, update: bool = False) -> ImportResult:
        """Import the records of a file, and delete it. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        notices: list[RecordNotice] = []
        ingest = RecordIngest(
            self.item_store, who, _first(refused), _no_files, noticed=_first(notices), update=update
        )
        with (
            self._uploads.whole(upload, who) as path,
            path.open("rb") as file,
            self.item_store.staging_session(),
        ):
            ingest_file(ingest, file, kind)
        self._uploads.delete(upload, who)
        return ingest.report, refused, notices

    def route(self) -> Route:
        """Return the route of imports."""
        return Route(
            "POST", "/imports", Scope.ADMIN, self._post, "take in a file of records, or look what would come of it",
            gives=_REPORT, refusals=(404, 409, 410, 411, 412, 413, 415, 422, 429, 507), headers=CHANGING,
            query={"format": {"enum": list(IMPORT_FORMATS)}, "dry": _YES, "update": _YES, "upload": TEXT},
            other_bodies=dict.fromkeys((*IMPORT_MEDIA_TYPES, "application/octet-stream"), BINARY),
        )  # fmt: skip

    async def _post(self, call: Call) -> Response:
        """Import a file and report; its bytes are the body, or a complete upload."""
        check_version(call.request.header(b"if-match"), None)  # many items have no common version to match
        fields = read_texts(ImportFields, {name: [text] for name, text in call.query.items()})
        if fields.upload:
            report = partial(self._report, call, fields.upload, fields)
            return await in_waiting_thread(once, call, fields.upload, report)
        call.body.check_announced()
        kind = _kind(fields.format, IMPORT_MEDIA_TYPES.get(call.body.kind, ""))
        async with staged_files(self.item_store) as files:
            await read_file(call, self.item_store.file_store, "records", files, LARGEST_IMPORT)
            file = files["records"]
            brought = partial(self._brought, call, file, kind, fields)
            return await in_waiting_thread(once, call, file.sha256, brought)

    def _brought(self, call: Call, file: StoredFile, kind: str, fields: ImportFields) -> Response:
        with self.kept(call.token_name, file, kind) as upload:
            return self._report(call, upload, fields)

    def _report(self, call: Call, upload: str, fields: ImportFields) -> Response:
        who, do = call.token_name, self.try_out if fields.dry else self.take
        kind = _kind(fields.format, self._uploads.find(upload, who).metadata)
        report, refused, notices = do(who, upload, kind, update=fields.update)
        facts = {
            "dry": fields.dry,
            **asdict(report),
            "refusals": [_place(each.line, each.name) | {"problem": call.say(each.why)} for each in refused],
            "notices": [_place(each.line, each.name) | {"notice": call.say(each.note)} for each in notices],
        }
        return answer({**facts, "upload": upload} if fields.dry else facts)


def _kind(*candidates: str) -> str:
    """Return the first of these words that is a format. Raises Refusal (422)."""
    for word in candidates:
        if word in IMPORT_FORMATS:
            return word
    raise Refusal(
        422, IbiError("say in which format the records are: {formats}", formats=", ".join(IMPORT_FORMATS))
    )


def _place(line: int, name: str) -> dict[str, Any]:
    return ({"line": line} if line else {}) | ({"record": name} if name else {})


def _first(kept: list[Any]) -> Callable[[Any], None]:
    """Return a function that adds to a list until it has `MOST_SHOWN` members."""
    return lambda each: kept.append(each) if len(kept) < MOST_SHOWN else None


def _no_files(_draft: Draft) -> NoReturn:
    raise BadItem("a record names files; deposit it by itself, or use the command: ibi archive import")
