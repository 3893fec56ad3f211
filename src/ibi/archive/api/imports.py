"""Files of records over HTTP and for pages: a dry run first, or the import at once.

After a dry run the file waits among the uploads of its token, for a day, and is imported by its id there. Records that
name files are refused: what lies beside the file is not on this machine.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ibi.accounts.tokens import Scope
from ibi.api.routes import (
    BINARY,
    COUNT,
    TEXT,
    TRUTH,
    Route,
    answer,
    in_changing_thread,
    list_of,
    once,
    record,
)
from ibi.archive.api.received_files import read_file, staged_files
from ibi.archive.ingest.batch import ImportReport, RecordIngest, RefusedRecord
from ibi.archive.ingest.importing import IMPORT_FORMATS, DryRun, ingest_file
from ibi.errors import BadItem, IbiError, NotHeld
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.api.routes import Call
    from ibi.archive.api.uploads import Uploads
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.response import Response

    ImportResult = tuple[ImportReport, list[RefusedRecord]]
    """The report of an import or a dry run, and the first refused records."""
    Do = Callable[[str, str, str], ImportResult]

LARGEST_IMPORT: Final = 256 << 20
"""Bytes of a file of records over HTTP; the command takes larger ones."""
MOST_SHOWN: Final = 200
"""Refused records that a report lists with their reason."""

_KINDS: Final = {
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/x-bibtex": "bibtex",
    "application/x-research-info-systems": "ris",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
}
"""The formats by the media types of bodies."""
_YES: Final = {"enum": ["yes", "no"]}
_REPORT: Final = record(
    "upload",
    dry=TRUTH,
    added=COUNT,
    unchanged=COUNT,
    refused=COUNT,
    refusals=list_of(record("line", "record", line=COUNT, record=TEXT, problem=TEXT), maxItems=MOST_SHOWN),
    upload={"type": "string", "description": "after a dry run: the file, to be taken in with ?upload="},
)


class Imports:
    """Imports files of records, which wait among the uploads. Its methods may take long: they belong into a thread."""

    def __init__(self, item_store: ItemStore, uploads: Uploads) -> None:
        self.item_store = item_store
        self._uploads = uploads

    @contextmanager
    def kept(self, who: str, file: StoredFile, metadata: str) -> Iterator[str]:
        """Move a staged file among the uploads; give its id there, and delete it if the block raises.

        `metadata`: that of the upload. Raises BadItem, Refusal, SetupError.
        """
        if file.size > LARGEST_IMPORT:
            raise BadItem("the file is too large for this page; use the command: ibi archive import")
        with self.item_store.file_store.open(self.item_store.service, file) as source:
            upload = self._uploads.take(who, source, file.size, metadata)
        try:
            yield upload
        except BaseException:
            with suppress(NotHeld, Refusal):
                self._uploads.delete(upload, who)
            raise

    def try_out(self, who: str, upload: str, kind: str) -> ImportResult:
        """Do a dry run of a file, which goes on waiting. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        dry_run = DryRun(self.item_store, _first(refused), _no_files)
        with self._uploads.whole(upload, who) as path, path.open("rb") as file:
            ingest_file(dry_run, file, kind)
        return dry_run.report, refused

    def take(self, who: str, upload: str, kind: str) -> ImportResult:
        """Import the records of a file, and delete it. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        ingest = RecordIngest(self.item_store, who, _first(refused), _no_files)
        with (
            self._uploads.whole(upload, who) as path,
            path.open("rb") as file,
            self.item_store.staging_session(),
        ):
            ingest_file(ingest, file, kind)
        self._uploads.delete(upload, who)
        return ingest.report, refused

    def route(self) -> Route:
        """The route of imports."""
        return Route(
            "POST", "/imports", Scope.ADMIN, self._post, "take in a file of records, or look what would come of it",
            gives=_REPORT, refusals=(404, 409, 410, 411, 413, 415, 422, 429, 507),
            query={"format": {"enum": list(IMPORT_FORMATS)}, "dry": _YES, "upload": TEXT},
            other_bodies=dict.fromkeys((*_KINDS, "application/octet-stream"), BINARY),
        )  # fmt: skip

    async def _post(self, call: Call) -> Response:
        """Import a file and report; its bytes are the body, or a complete upload."""
        words = call.query
        dry, upload = words.get("dry", "no"), words.get("upload")
        if dry not in _YES["enum"]:
            raise Refusal(400, IbiError("{name} is yes or no", name="dry"))
        format_, do = words.get("format", ""), self.try_out if dry == "yes" else self.take
        if upload is not None:
            report = partial(self._report, call, upload, format_, do)
            return await in_changing_thread(once, call, upload, report)
        call.body.check_announced()
        kind = _kind(format_, _KINDS.get(call.body.kind, ""))
        async with staged_files(self.item_store) as files:
            await read_file(call, self.item_store.file_store, "records", files, LARGEST_IMPORT)
            file = files["records"]
            brought = partial(self._brought, call, file, kind, do)
            return await in_changing_thread(once, call, file.sha256, brought)

    def _brought(self, call: Call, file: StoredFile, kind: str, do: Do) -> Response:
        with self.kept(call.token_name, file, kind) as upload:
            return self._report(call, upload, kind, do)

    def _report(self, call: Call, upload: str, format_: str, do: Do) -> Response:
        who, dry = call.token_name, do == self.try_out
        report, refused = do(who, upload, _kind(format_, self._uploads.find(upload, who).metadata))
        facts = {
            "dry": dry,
            "added": report.added,
            "unchanged": report.unchanged,
            "refused": report.refused,
            "refusals": [_facts(each, call) for each in refused],
        }
        return answer({**facts, "upload": upload} if dry else facts)


def _kind(*candidates: str) -> str:
    """The first of some words that is a format. Raises Refusal (422)."""
    for word in candidates:
        if word in IMPORT_FORMATS:
            return word
    raise Refusal(
        422, IbiError("say in which format the records are: {formats}", formats=", ".join(IMPORT_FORMATS))
    )


def _facts(refused: RefusedRecord, call: Call) -> dict[str, Any]:
    where: dict[str, Any] = {"line": refused.line} if refused.line else {}
    return where | ({"record": refused.name} if refused.name else {}) | {"problem": call.say(refused.why)}


def _first(refused: list[RefusedRecord]) -> Any:
    """A function that keeps the first refused records, and no more."""
    return lambda each: refused.append(each) if len(refused) < MOST_SHOWN else None


def _no_files(_draft: Draft) -> NoReturn:
    raise BadItem("a record names files; deposit it by itself, or use the command: ibi archive import")
