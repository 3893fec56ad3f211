"""Operations for preservation: the state of an Archive, audits, checks, repairs, backups, settling."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field, number_field
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, TEXT, TRUTH, list_of, record
from ibi.archive.membership.joining import Resolvers
from ibi.archive.preservation import status
from ibi.archive.preservation.audit import Audit, fault_message
from ibi.archive.preservation.backup import Backup, verify
from ibi.archive.preservation.backup_store import BackupStore
from ibi.archive.preservation.check import check
from ibi.archive.preservation.repair import put_back
from ibi.archive.replication.restored_originals import Settler
from ibi.archive.store.tables import fixity
from ibi.errors import BadField, IbiError, SetupError
from ibi.identifier.forms import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.preservation.file_check import Difference
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.fixity import AuditResult

_KEPT: Final = 7
_MOST_KEPT: Final = 10_000  # backups that may be kept
_IBI: Final = field("one of its names", "ibi IBI", longest=512)


class AuditFields(Fields, frozen=True):
    """Which files an audit reads."""

    ibi: Annotated[str, field("the files of this item only", "ibi IBI", longest=512)] = ""
    go_on: Annotated[bool, field("go on where the last audit was interrupted", "--continue")] = False


class CheckFields(Fields, frozen=True):
    """Whether a check also repairs."""

    repair: Annotated[bool, field("fix what is safe to fix; what is listed is never removed", "--repair")] = (
        False
    )


class RepairFields(Fields, frozen=True):
    """A damaged file, and the source of its bytes."""

    ibi: Annotated[str, _IBI]
    file: Annotated[str, field("the file's name in the item, percent-encoded", "file FILE")]
    upload: Annotated[str, field("a file with the same bytes", "--from PATH", upload=True)]


class BackupFields(Fields, frozen=True):
    """The folder of a backup, and how many backups are kept."""

    to: Annotated[
        str, field("where backups are kept; without it, the setting backup_folder", "--to FOLDER", local=True)
    ] = ""
    keep: Annotated[int, number_field("how many backups stay; without it, 7", "--keep N", 1, _MOST_KEPT)] = (
        _KEPT
    )
    verify: Annotated[bool, field("read all of it again afterwards", "--verify")] = False


class SettleFields(Fields, frozen=True):
    """The originals that a person knows to be only here; without any, peers and resolvers are asked."""

    names: Annotated[
        tuple[str, ...],
        field(
            "an original that is still here and in no other Archive, as you know: it is claimed again",
            "--name IBI",
        ),
    ] = ()
    everything: Annotated[
        bool, field("all of them are still here and in no other Archive, as you know", "--all")
    ] = False


def state(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return the state of the Archive: items, files, memberships, hand-overs, copies. Raises SetupError."""
    resolvers = Resolvers.read(context.data)
    with context.catalogue() as catalogue, catalogue.reading() as run:
        count, size = fixity.total(run)
        facts = status.identity(resolvers.settings) | status.sections(run, resolvers, context.say)
    files = {"count": count, "bytes": size, "free": shutil.disk_usage(context.data).free}
    return facts | {"files": files}


def audits(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return the results of audits. Raises SetupError."""
    days = context.directory.settings().audit_days
    with context.catalogue() as catalogue, catalogue.reading() as run:
        damaged = [status.of_fault(known) for known in fixity.faults(run, status.MOST_FAULTS)]
        return {"days": days, **status.of_audit(run, context.say), "damaged": damaged}


def audit(context: ArchiveContext, fields: AuditFields) -> dict[str, Any]:
    """Read every stored file again, and compare it with its SHA-256. Raises NotHeld, SetupError."""
    context.directory.settings()
    with context.catalogue() as catalogue:
        reading = Audit(catalogue, context.directory.file_store(), context.directory.now)
        total, walk = _walk(catalogue, reading, fields)
        faults = []
        for result in walk:
            context.progress(reading.progress.done, total)
            if result.fault is not None:
                faults.append(result)
                context.noted(fault_message(result.listed, result.fault))
        with catalogue.reading() as run:
            good = [fixity.last_good(run, each.listed.item, each.listed.file) for each in faults]
    listed = [
        {"item": str(each.forms.main), "file": each.file.name, "fault": fault, "found": moment,
         "last_good": last_good or None}
        for (each, fault, moment), last_good in zip(faults, good, strict=True)
    ]  # fmt: skip
    return {"files": reading.progress.files, "bytes": reading.progress.done, "faults": listed}


def _walk(catalogue: Catalogue, reading: Audit, fields: AuditFields) -> tuple[int, Iterator[AuditResult]]:
    """Return the number of bytes to read, and an iterator of the results, which reads them."""
    if fields.ibi:
        holding = catalogue.held(parse_name(fields.ibi))
        return sum(file.size for file in holding.files), reading.item(holding)
    with catalogue.reading() as run:
        _, total = fixity.total(run)
    return total, reading.all(go_on=fields.go_on)


def check_all(context: ArchiveContext, fields: CheckFields) -> dict[str, Any]:
    """Check the whole Archive. Raises SetupError."""
    differences = list(differences_of(context, fields))
    return {"differences": differences, "open": sum(not each["settled"] for each in differences)}


def differences_of(context: ArchiveContext, fields: CheckFields) -> Iterator[dict[str, Any]]:
    """Yield each difference when it is found, and settled if requested and safe. Raises SetupError."""
    if not context.data.is_dir():
        raise SetupError("{path} does not exist", path=context.data)
    for difference in check(context.directory, context.directory.machine, context.progress):
        settled = bool(fields.repair and difference.mend)
        if settled and difference.mend:
            difference.mend()
        remedy = IbiError("settled") if settled else _remedy(context, difference)
        yield {"problem": context.say(difference.what), "advice": context.say(remedy), "settled": settled}


def _remedy(context: ArchiveContext, difference: Difference) -> IbiError:
    """Return the remedy of a difference, with the reader's name for the field `repair`."""
    remedy = difference.remedy
    if difference.mend is None:
        return remedy
    return IbiError(remedy.problem, **{**remedy.details, "repair": context.called("repair")})


def repair_file(context: ArchiveContext, fields: RepairFields) -> dict[str, Any]:
    """Put the same bytes of a damaged file back; refuse others. Raises NotHeld, BadItem, SetupError."""
    name = parse_name(fields.ibi)
    with context.used(fields.upload) as source, context.item_store() as item_store:
        file = put_back(item_store, name, fields.file, source, context.who)
    return {"ibi": str(name), "file": file.name, "sha256": file.sha256}


def settle(context: ArchiveContext, fields: SettleFields) -> dict[str, Any]:
    """Settle originals that came back from a backup (decision 0039).

    Raises ParseError, NotHeld, HoldingError for an original that is settled already, SetupError.
    """
    if fields.names and fields.everything:
        raise BadField("give names, or {name}, but not both", name=context.called("everything"))
    with context.item_store() as item_store:
        settler = Settler(item_store, context.data)
        if fields.names or fields.everything:
            names = None if fields.everything else [parse_name(text) for text in fields.names]
            result = settler.confirm(context.who, names)
        else:
            result = asyncio.run(settler.ask(context.who, context.progress))
    problems = [{"source": source, "problem": context.say(why)} for source, why in result.problems]
    return {
        "settled": result.settled, "moved": result.moved, "removed": result.removed, "left": result.left,
        "problems": problems,
    }  # fmt: skip


def backups(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return the backups in the folder of the settings. Raises SetupError."""
    folder = context.directory.settings().backup_folder
    if not folder or not Path(folder).is_dir():
        return {"backups": []}
    store = BackupStore(Path(folder))
    about = [(name, store.about(name)) for name in store.backups()]
    listed = [
        {"backup": name, "items": each.items, "files": each.files, "bytes": each.bytes}
        for name, each in about
    ]
    return {"backups": listed}


def back_up(context: ArchiveContext, fields: BackupFields) -> dict[str, Any]:
    """Make a backup of the whole Archive, also while it runs. Raises SetupError."""
    folder = fields.to or context.directory.settings().backup_folder
    if not folder:
        problem = (
            "no folder for backups is set; set it on the command line: ibi archive set "
            "--backup-folder DIR, or --to FOLDER for one backup"
        )
        raise BadField(problem, name="backup_folder")
    store = BackupStore(Path(folder))
    with context.catalogue() as catalogue, catalogue.reading() as run:
        _, total = fixity.total(run)

    def progress(done: int) -> None:
        context.progress(done, total)

    saved = Backup(context.directory, store, progress).run(fields.keep)
    if fields.verify:
        saved.problems += verify(store, saved.name, progress)
    return {
        "backup": saved.name, "items": saved.items, "files": saved.files, "bytes": saved.bytes,
        "copied": saved.copied, "copied_bytes": saved.copied_bytes, "removed": saved.removed,
        "problems": [context.say(problem) for problem in saved.problems],
    }  # fmt: skip


def _faults(context: ArchiveContext, _fields: NoFields) -> list[Any]:
    """Return the value for the ETag of audits: the damaged files, not the progress of an audit."""
    with context.catalogue() as catalogue, catalogue.reading() as run:
        return [status.of_fault(known) for known in fixity.faults(run, status.MOST_FAULTS)]


_STATE: Final[dict[str, Any]] = {
    "type": "object",
    "required": "service address items files resolvers transfers copies audit unsettled".split(),
    "properties": {
        **dict.fromkeys(("service", "address", "ip", "admin", "labels"), TEXT),
        **dict.fromkeys(("switched_on", "retired"), TRUTH),
        "aliases": list_of(TEXT),
        "resolvers": list_of({"type": "object"}),
        "transfers": list_of({"type": "object"}),
        "copies": record(lagging=COUNT, since=TEXT),
        "items": {"type": "object", "additionalProperties": COUNT},
        "files": {"type": "object", "properties": dict.fromkeys(("count", "bytes", "free"), COUNT)},
        "audit": {"type": "object"},
        "unsettled": COUNT,
    },
}
_FAULT: Final = {
    "type": "object",
    "properties": dict.fromkeys(("ibi", "file", "fault", "found", "good"), TEXT),
}
_AUDITS: Final = record(
    days=COUNT, files=COUNT, faults=COUNT, begun=TEXT, ended=TEXT,
    damaged=list_of(_FAULT, maxItems=status.MOST_FAULTS),
)  # fmt: skip
_FOUND: Final = record(
    "last_good", item=TEXT, file=TEXT, fault=TEXT, found=TEXT, last_good={"type": ["string", "null"]}
)
_AUDIT: Final = record(files=COUNT, bytes=COUNT, faults=list_of(_FOUND))
_DIFFERENCE: Final = record(problem=TEXT, advice=TEXT, settled=TRUTH)
_COUNTS: Final = dict.fromkeys(("items", "files", "bytes"), COUNT)
_BACKUP: Final = record(
    backup=TEXT, **_COUNTS, copied=COUNT, copied_bytes=COUNT, removed=COUNT, problems=list_of(TEXT)
)
_SETTLED: Final = record(
    **dict.fromkeys(("settled", "moved", "removed", "left"), COUNT),
    problems=list_of(record(source=TEXT, problem=TEXT)),
)

STATE: Final = Operation(
    "state",
    "the state of the Archive",
    Scope.READ,
    NoFields,
    state,
    "GET /state",
    gives=_STATE,
    command="show",
)
AUDITS: Final = Operation(
    "audits", "what audits of the stored files found", Scope.READ, NoFields, audits, "GET /audit", gives=_AUDITS,
    page="audit", version=_faults,
)  # fmt: skip
AUDIT: Final = Operation(
    "audit", "read every stored file again, and compare it with its SHA-256", Scope.ADMIN, AuditFields, audit,
    "POST /audit", gives=_AUDIT, is_long=True,
)  # fmt: skip
CHECK: Final = Operation(
    "check", "see whether the Archive is whole", Scope.ADMIN, CheckFields, check_all, "POST /checks",
    gives=record(differences=list_of(_DIFFERENCE), open=COUNT), is_long=True,
)  # fmt: skip
REPAIR: Final = Operation(
    "repair", "put the bytes of a damaged file back: the same ones, or nothing", Scope.ADMIN, RepairFields,
    repair_file, "POST /repairs", gives=record(ibi=TEXT, file=TEXT, sha256=TEXT), refusals=(410,),
)  # fmt: skip
BACKUPS: Final = Operation(
    "backups", "the backups that are kept", Scope.ADMIN, NoFields, backups, "GET /backups",
    gives=record(backups=list_of(record(backup=TEXT, **_COUNTS))),
)  # fmt: skip
BACKUP: Final = Operation(
    "backup", "save everything, also while the Archive runs", Scope.ADMIN, BackupFields, back_up, "POST /backups",
    gives=_BACKUP, is_long=True,
)  # fmt: skip
SETTLE: Final = Operation(
    "settle", "settle the originals that came back from a backup", Scope.ADMIN, SettleFields, settle,
    "POST /settlements", gives=_SETTLED, is_long=True,
    warning="what is named here is claimed again: if it has moved or was removed since the backup, there are two "
    "originals of it, or it is back",
)  # fmt: skip

OPERATIONS: Final = (STATE, AUDITS, AUDIT, CHECK, REPAIR, BACKUPS, BACKUP, SETTLE)
