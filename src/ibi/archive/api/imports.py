"""Files of records over HTTP and for pages: a dry run first, or the import at once.

POST /-/api/imports?format=csv&dry=yes     the file is the body; the report, and `upload`: where the file waits
POST /-/api/imports?upload=<id>            import what had a dry run, or a file that came as an upload

The file waits among the uploads of its token, for a day. Records that name files are refused: what lies beside the file
is not on this machine.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import Refusal
from ibi.api.routes import Route, answer, in_changing_thread
from ibi.archive.api.received_files import read_file, staged_files
from ibi.archive.ingest.batch import ImportReport, RecordIngest, RefusedRecord
from ibi.archive.ingest.importing import IMPORT_FORMATS, DryRun, ingest_file
from ibi.errors import BadItem, IbiError, NotHeld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.api.routes import Call
    from ibi.archive.api.uploads import Uploads
    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore
    from ibi.http.response import Response

LARGEST_IMPORT: Final = 256 << 20
"""Bytes of a file of records over HTTP; the command takes larger ones."""
MOST_SHOWN: Final = 200
"""Refused records that a report lists with their reason."""

_CHUNK: Final = 1 << 20
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
_COUNT: Final = {"type": "integer", "minimum": 0}
_REPORT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["dry", "added", "unchanged", "refused", "refusals"],
    "properties": {
        "dry": {"type": "boolean"},
        **dict.fromkeys(("added", "unchanged", "refused"), _COUNT),
        "refusals": {
            "type": "array",
            "maxItems": MOST_SHOWN,
            "items": {
                "type": "object",
                "required": ["problem"],
                "properties": {"line": _COUNT, "record": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
        "upload": {
            "type": "string",
            "description": "after a dry run: the file, to be taken in with ?upload=",
        },
    },
}


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import or a dry run: its report, and the first refused records."""

    report: ImportReport
    refused: tuple[RefusedRecord, ...]


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
        upload = self._keep(who, file, metadata)
        try:
            yield upload
        except BaseException:
            with suppress(NotHeld, Refusal):
                self._uploads.delete(upload, who)
            raise

    def _keep(self, who: str, file: StoredFile, metadata: str) -> str:
        if file.size > LARGEST_IMPORT:
            raise BadItem("the file is too large for this page; use the command: ibi archive import")
        upload = self._uploads.start(who, file.size, metadata).id
        source = self.item_store.file_store.open(self.item_store.service, file)
        with source, self._uploads.writing(upload, who) as writing:
            while piece := source.read(_CHUNK):
                writing.write(piece)
        return upload

    def metadata(self, who: str, upload: str) -> str:
        """The metadata of a file that waits. Raises NotHeld, Refusal."""
        return self._uploads.find(upload, who).metadata

    def try_out(self, who: str, upload: str, kind: str) -> ImportResult:
        """Do a dry run of a file, which goes on waiting. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        dry_run = DryRun(self.item_store.catalogue, _first(refused), _no_files)
        with self._uploads.whole(upload, who) as path, path.open("rb") as file:
            ingest_file(dry_run, file, kind)
        return ImportResult(dry_run.report, tuple(refused))

    def take(self, who: str, upload: str, kind: str) -> ImportResult:
        """Import the records of a file, and delete it. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[RefusedRecord] = []
        ingest = RecordIngest(self.item_store, who, _first(refused), _none_staged)
        with (
            self._uploads.whole(upload, who) as path,
            path.open("rb") as file,
            self.item_store.staging_session(),
        ):
            ingest_file(ingest, file, kind)
        self._uploads.delete(upload, who)
        return ImportResult(ingest.report, tuple(refused))


def routes(imports: Imports) -> tuple[Route, ...]:
    """The route of imports."""
    handlers = _Handlers(imports)
    records = {"type": "string", "format": "binary"}
    return (
        Route(
            "POST", "/imports", Scope.ADMIN, handlers.post, "take in a file of records, or look what would come of it",
            gives=_REPORT, refusals=(404, 409, 410, 411, 413, 415, 422, 429, 507),
            query={"format": {"enum": list(IMPORT_FORMATS)}, "dry": _YES, "upload": {"type": "string"}},
            other_bodies=dict.fromkeys((*_KINDS, "application/octet-stream"), records),
        ),
    )  # fmt: skip


class _Handlers:
    """The handler of the route."""

    def __init__(self, imports: Imports) -> None:
        self._imports = imports

    async def post(self, call: Call) -> Response:
        """Import a file and report; its bytes are the body, or a complete upload."""
        words = call.query
        dry, upload = words.get("dry", "no"), words.get("upload")
        if dry not in _YES["enum"]:
            raise Refusal(400, IbiError("{name} is yes or no", name="dry"))
        if upload is not None:
            return await in_changing_thread(self._report, call, upload, words.get("format", ""), dry == "yes")
        if not call.body.announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"))
        kind = _kind(words.get("format", ""), _KINDS.get(call.body.kind, ""))
        item_store = self._imports.item_store
        async with staged_files(item_store) as files:
            await read_file(call, item_store.file_store, "records", files, LARGEST_IMPORT)
            return await in_changing_thread(self._brought, call, files["records"], kind, dry == "yes")

    def _brought(self, call: Call, file: StoredFile, kind: str, dry: bool) -> Response:  # noqa: FBT001 - see below
        with self._imports.kept(call.token_name, file, kind) as upload:
            return self._report(call, upload, kind, dry)

    def _report(self, call: Call, upload: str, format_: str, dry: bool) -> Response:  # noqa: FBT001 - it goes through a thread, by place
        who = call.token_name
        kind = _kind(format_, self._imports.metadata(who, upload))
        do = self._imports.try_out if dry else self._imports.take
        found = do(who, upload, kind)
        refusals = [_facts(refused, call) for refused in found.refused]
        report = {
            "dry": dry,
            "added": found.report.added,
            "unchanged": found.report.unchanged,
            "refused": found.report.refused,
            "refusals": refusals,
        }
        return answer({**report, "upload": upload} if dry else report)


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


def _no_files(_draft: Draft) -> None:
    raise BadItem("a record names files; deposit it by itself, or use the command: ibi archive import")


def _none_staged(draft: Draft) -> Iterator[StoredFile]:
    _no_files(draft)
    yield from ()
