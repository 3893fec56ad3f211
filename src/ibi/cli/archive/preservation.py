"""`ibi archive audit`, `repair`, `check`, `rebuild`, `backup`, `restore`, `settle`, `move-store`: preservation."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.operations import jobs
from ibi.archive.operations import preservation as operations
from ibi.archive.replication.restored_originals import left_unsettled
from ibi.cli.archive.common import add_plain, context_of, directory, directory_at
from ibi.cli.common import argument, flag, remark, tell, tell_line
from ibi.cli.operations import add_operation, fields_of
from ibi.cli.progress import Progress
from ibi.errors import SetupError
from ibi.runtime.i18n import say, say_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ibi.archive.operations.context import ArchiveContext
    from ibi.cli.common import CommandGroup
    from ibi.errors import IbiError


_SETTLE: Final = """\
Originals that came back from a backup may have moved to another Archive, or been removed, since. Until they are settled
nothing is said of them. Without options, every peer with a token and every resolver that the Archive has joined is
asked: what moved becomes a copy, and what was removed is removed again. A running Archive asks by itself. What none of
them knows, you settle: what you name, or --all, is claimed again at once. If it has moved since, there are two
originals of it; if it was removed, it is back.
"""

_FILE: Final = ("file", "files")
"""The second is the word of the resolver's command."""


_MOVE: Final = """\
Every file is copied and read again at its new place; the old place keeps its files. The Archive may be served while
files are copied. At the end it must be stopped: run the same command again then. A move that was interrupted goes on.
Endpoint and keys of the S3 store are read from AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and the like.
"""


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    flag(add_operation(actions, operations.AUDIT, _audit), "--json", "one JSON document")
    add_operation(actions, operations.REPAIR, _repair)
    flag(add_operation(actions, operations.CHECK, _check), "--json", "one JSON document")
    actions.add("rebuild", "make a lost or damaged catalogue anew from what lies beside the files", _rebuild)
    flag(add_operation(actions, operations.BACKUP, _backup), "--json", "one JSON document")
    restore = actions.add("restore", "put an Archive back from a backup into a new directory", _restore)
    argument(restore, "--from FOLDER", "where backups are kept", dest="source", type=Path, required=True)
    argument(restore, "--backup NAME", "which one, by its name; without it, the newest", default="")
    flag(restore, "--json", "one JSON document")
    text = "move the files of items to an S3 store, or back into the folder"
    move = actions.add("move-files", text, _move_files, _MOVE)
    argument(move, "--to PLACE", "s3://bucket/prefix, or folder", required=True)
    move = actions.add(
        "move-store", "move the catalogue into a database of PostgreSQL, or back into a file", _move_store
    )
    argument(move, "--to STORE", "the URL of an empty database, or `file`", required=True)
    flag(add_operation(actions, operations.SETTLE, _settle, _SETTLE), "--json", "one JSON document")
    for operation in (operations.AUDITS, operations.BACKUPS, *jobs.OPERATIONS):
        add_plain(actions, operation)


@contextmanager
def _acting(args: argparse.Namespace, title: str, *, in_bytes: bool = False) -> Iterator[ArchiveContext]:
    """Yield the context of an operation whose progress is shown."""
    context = context_of(args)
    with Progress(title, in_bytes=in_bytes) as progress:
        context.progress = progress.at
        yield context


def _audit(args: argparse.Namespace) -> int:
    fields = fields_of(args, operations.AuditFields)
    with _acting(args, say("stored files read"), in_bytes=True) as context:
        context.noted = (lambda _: None) if args.json else _print
        found = operations.audit(context, fields)
    if args.json:
        print(json.dumps(found))
    else:
        print(say("{count} files read, {faults} faults", count=found["files"], faults=len(found["faults"])))
    return 1 if found["faults"] else 0


def _print(note: IbiError) -> None:
    print(say(note), flush=True)


def _repair(args: argparse.Namespace) -> int:
    repaired = operations.repair_file(context_of(args), fields_of(args, operations.RepairFields))
    remark("{file} of {name} is good again", file=repaired["file"], name=repaired["ibi"])
    return 0


def _check(args: argparse.Namespace) -> int:
    fields, left = fields_of(args, operations.CheckFields), 0
    with _acting(args, say("items checked")) as context:
        if args.json:
            found = operations.check_all(context, fields)
            print(json.dumps(found))
            return 1 if found["open"] else 0
        for each in operations.differences_of(context, fields):
            # Flushed, so that each finding is seen at once: checking a large Archive takes hours.
            print(f"{each['problem']}\n    {each['advice']}", flush=True)
            left += not each["settled"]
    print(say_count(left, "{count} difference", "{count} differences"))
    return 1 if left else 0


def _rebuild(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.rebuild import rebuild

    with Progress(say("items read")) as progress:
        rebuilt = rebuild(directory(args), progress.at)
    for problem in rebuilt.problems:
        tell(problem)
    if not rebuilt.kept:
        tell("the old catalogue could not be read; items without files are in a backup only")
    print(say("{added} items added, {changed} updated", added=rebuilt.added, changed=rebuilt.brought_on))
    return 1 if rebuilt.problems else 0


def _backup(args: argparse.Namespace) -> int:
    fields = fields_of(args, operations.BackupFields)
    with _acting(args, say("files saved"), in_bytes=True) as context:
        saved = operations.back_up(context, fields)
    if args.json:
        print(json.dumps(saved))
        return 1 if saved["problems"] else 0
    for problem in saved["problems"]:
        tell_line(problem)
    sentence = "{name}: {items} items, {files} files, {copied} of them new"
    facts = {name: saved[name] for name in ("items", "files", "copied")}
    print(say(sentence, None, name=saved["backup"], **facts))
    return 1 if saved["problems"] else 0


def _settle(args: argparse.Namespace) -> int:
    fields = fields_of(args, operations.SettleFields)
    with _acting(args, say("originals asked about")) as context:
        result = operations.settle(context, fields)
    if args.json:
        print(json.dumps(result))
        return 1 if result["problems"] else 0
    for each in result["problems"]:
        tell_line(f"{each['source']}: {each['problem']}" if each["source"] else each["problem"])
    if result["left"] and not (result["problems"] or fields.names):
        tell(left_unsettled(result["left"], args.data))
    sentence = "settled: {settled}; moved: {moved}; removed: {removed}; not settled: {left}"
    counts = {name: result[name] for name in ("settled", "moved", "removed", "left")}
    print(say(sentence, None, **counts))
    return 1 if result["problems"] else 0


def _move_files(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.moving import move_files

    place = "" if args.to == "folder" else args.to
    before = directory(args).settings().files or str(args.data / "col")
    with Progress(say("files moved")) as progress:
        moved = move_files(directory(args), place, progress.at)
    for problem in moved.problems:
        tell(problem)
    if moved.problems:
        tell("the files stay where they were: repair these first, and run the same command again")
        return 1
    sentence = "{files} files are at their new place; {place} keeps its files until you delete them"
    print(say(sentence, None, files=moved.files, place=before))
    return 0


def _move_store(args: argparse.Namespace) -> int:
    # Imported here, because the driver of PostgreSQL is an extra.
    from ibi.archive.store.postgresql.moving import move_store

    with Progress(say("rows copied")) as progress:
        rows = move_store(directory(args), "" if args.to in _FILE else args.to, progress.at)
    remark("{count} rows were copied and compared; the old store is kept as it was", count=rows)
    return 0


def _restore(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.backup import restore
    from ibi.archive.preservation.backup_store import BackupStore
    from ibi.archive.store.tables.listings import count_unsettled

    store = BackupStore(args.source)
    names = store.backups()
    name = args.backup or (names[-1] if names else "")
    if name not in names:
        raise SetupError("there is no backup {name} in {path}", name=name or "-", path=args.source)
    with Progress(say("files put back"), store.about(name).bytes, in_bytes=True) as progress:
        problems = restore(store, name, args.data, progress.at)
        with directory_at(args.data).catalogue() as catalogue:
            items = catalogue.count()
            with catalogue.reading() as run:
                left = count_unsettled(run)
    if args.json:
        found = {
            "backup": name,
            "items": items,
            "unsettled": left,
            "problems": [say(each) for each in problems],
        }
        print(json.dumps(found))
    else:
        for problem in problems:
            tell(problem)
        print(
            say_count(
                items, "{count} item is back, as of {name}", "{count} items are back, as of {name}", name=name
            )
        )
    _tell_what_waits(args.data, left)
    return 1 if problems else 0


def _tell_what_waits(data: Path, left: int) -> None:
    """Print what a restored Archive does not do yet; `left`: how many of its originals are not settled."""
    if left:
        # They may have moved, or been removed, since the backup was made (note 45: filters of holdings).
        text = (
            "answers leave out originals that are not settled ({count}): the running Archive asks "
            "its peers and resolvers what became of them; for what these cannot answer: ibi archive "
            "settle --data {data} --help"
        )
        tell(text, count=left, data=data)
    # The lost Archive may have given labels since the backup, and no label may be given twice (T31: a label given
    # twice).
    text = "labels wait until: ibi mint recover --data {data} --moved; if the old Archive still mints, first end that"
    tell(text, data=data)
