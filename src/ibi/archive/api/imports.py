"""Files of records over HTTP, and what pages do with them: first what would come of it, or at once in earnest.

POST /-/api/imports?format=csv&dry=yes     the file is the body; the report, and `upload`: where the file waits
POST /-/api/imports?upload=<id>            in earnest what was looked at, or a file that came as an upload

A file waits among the uploads, as its owner's, for a day. Records that name files are refused: what lies beside the
file is not on this machine.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.api.intake import read_file, taking_in
from ibi.archive.intake.importing import FORMATS, Report, fill
from ibi.archive.intake.taking import Intake, Refused
from ibi.archive.intake.weighing import Weighing
from ibi.errors import BadItem, IbiError, NotHeld
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Route, answer, in_turn
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.api.upload_store import Uploads
    from ibi.archive.holding import StoredFile
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Keeper
    from ibi.exchange import Response
    from ibi.interface.routes import Call

LARGEST_IMPORT: Final = 256 << 20
"""Bytes of a file of records over HTTP; the command takes larger ones."""
MOST_SHOWN: Final = 200
"""Refused records of which a report says why."""

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
class Imported:
    """What has come, or would come, of a file: its report, and the first refused records."""

    report: Report
    refused: tuple[Refused, ...]


class Imports:
    """Takes files of records in, which wait among the uploads. All of it may wait long: it belongs into a thread."""

    def __init__(self, keeper: Keeper, uploads: Uploads) -> None:
        self.keeper = keeper
        self._uploads = uploads

    @contextmanager
    def kept(self, who: str, file: StoredFile, told: str) -> Iterator[str]:
        """A staged file among the uploads, by its id there; it goes again where anything goes wrong with it.

        `told`: what is kept of it. Raises BadItem, Refusal, SetupError.
        """
        upload = self._keep(who, file, told)
        try:
            yield upload
        except BaseException:
            with suppress(NotHeld, Refusal):
                self._uploads.forget(upload, who)
            raise

    def _keep(self, who: str, file: StoredFile, told: str) -> str:
        if file.size > LARGEST_IMPORT:
            raise BadItem("the file is too large for this page; use the command: ibi archive import")
        upload = self._uploads.begin(who, file.size, told).id
        source = self.keeper.storage.open(self.keeper.service, file)
        with source, self._uploads.writing(upload, who) as writing:
            while piece := source.read(_CHUNK):
                writing.write(piece)
        return upload

    def told(self, who: str, upload: str) -> str:
        """What is kept of a file that waits. Raises NotHeld, Refusal."""
        return self._uploads.find(upload, who).metadata

    def weigh(self, who: str, upload: str, kind: str) -> Imported:
        """What would come of a file; it goes on waiting. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[Refused] = []
        weighing = Weighing(self.keeper.catalogue, _first(refused), _no_files)
        with self._uploads.whole(upload, who) as path, path.open("rb") as file:
            fill(weighing, file, kind)
        return Imported(weighing.report, tuple(refused))

    def take(self, who: str, upload: str, kind: str) -> Imported:
        """Take its records in; then it is gone. Raises NotHeld, Refusal, BadItem, SetupError."""
        refused: list[Refused] = []
        intake = Intake(self.keeper, who, _first(refused), _none_staged)
        with self._uploads.whole(upload, who) as path, path.open("rb") as file, self.keeper.working():
            fill(intake, file, kind)
        self._uploads.forget(upload, who)
        return Imported(intake.report, tuple(refused))


def routes(imports: Imports) -> tuple[Route, ...]:
    """The table of imports."""
    door = _Door(imports)
    records = {"type": "string", "format": "binary"}
    return (
        Route(
            "POST", "/imports", Scope.ADMIN, door.post, "take in a file of records, or look what would come of it",
            gives=_REPORT, refusals=(404, 409, 410, 411, 413, 415, 422, 429, 507),
            query={"format": {"enum": list(FORMATS)}, "dry": _YES, "upload": {"type": "string"}},
            other_bodies=dict.fromkeys((*_KINDS, "application/octet-stream"), records),
        ),
    )  # fmt: skip


class _Door:
    """The function of the table."""

    def __init__(self, imports: Imports) -> None:
        self._imports = imports

    async def post(self, call: Call) -> Response:
        """The report of a file; its bytes are the body, or an upload that has come to its end."""
        words = call.query
        dry, upload = words.get("dry", "no"), words.get("upload")
        if dry not in _YES["enum"]:
            raise Refusal(400, IbiError("{name} is yes or no", name="dry"))
        if upload is not None:
            return await in_turn(self._report, call, upload, words.get("format", ""), dry == "yes")
        if not call.body.announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"))
        kind = _kind(words.get("format", ""), _KINDS.get(call.body.kind, ""))
        keeper = self._imports.keeper
        async with taking_in(keeper) as files:
            await read_file(call, keeper.storage, "records", files, LARGEST_IMPORT)
            return await in_turn(self._brought, call, files["records"], kind, dry == "yes")

    def _brought(self, call: Call, file: StoredFile, kind: str, dry: bool) -> Response:  # noqa: FBT001 - see below
        with self._imports.kept(call.who, file, kind) as upload:
            return self._report(call, upload, kind, dry)

    def _report(self, call: Call, upload: str, said: str, dry: bool) -> Response:  # noqa: FBT001 - it goes through a thread, by place
        who = call.who
        kind = _kind(said, self._imports.told(who, upload))
        do = self._imports.weigh if dry else self._imports.take
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


def _kind(*said: str) -> str:
    """The first of these that is a format. Raises Refusal (422)."""
    for word in said:
        if word in FORMATS:
            return word
    raise Refusal(422, IbiError("say in which format the records are: {formats}", formats=", ".join(FORMATS)))


def _facts(refused: Refused, call: Call) -> dict[str, Any]:
    where: dict[str, Any] = {"line": refused.line} if refused.line else {}
    return where | ({"record": refused.name} if refused.name else {}) | {"problem": call.say(refused.why)}


def _first(refused: list[Refused]) -> Any:
    """What keeps the first refused records, and no more."""
    return lambda each: refused.append(each) if len(refused) < MOST_SHOWN else None


def _no_files(_draft: Draft) -> None:
    raise BadItem("a record names files; deposit it by itself, or use the command: ibi archive import")


def _none_staged(draft: Draft) -> Iterator[StoredFile]:
    _no_files(draft)
    yield from ()
