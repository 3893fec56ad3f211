"""`ibi archive audit`, `repair`, `check`, `rebuild`, `backup`, `restore`: what keeps an Archive whole."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.cli.archive.common import directory, directory_at, held, user_name
from ibi.cli.common import Progress, argument, flag, number, tell
from ibi.errors import SetupError
from ibi.identifier.forms import parse_name
from ibi.runtime.i18n import say, say_count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ibi.archive.preservation.audit import Audit
    from ibi.archive.store.tables.fixity import AuditResult
    from ibi.cli.common import CommandGroup

_KEPT = 7
_MOST_KEPT = 10_000  # backups that may be kept


def add(actions: CommandGroup) -> None:
    """Add the subcommands."""
    audit = actions.add("audit", "read every stored file again, and compare it with its SHA-256", _audit)
    argument(audit, "ibi IBI", "the files of this item only", nargs="?")
    flag(audit, "--continue", "go on where the last audit was interrupted", dest="go_on")
    flag(audit, "--json", "one JSON document")
    repair = actions.add("repair", "put the bytes of a damaged file back: the same ones, or nothing", _repair)
    argument(repair, "ibi IBI", "one of its names")
    argument(repair, "file FILE", "the file's name in the item, percent-encoded")
    argument(repair, "--from PATH", "a file with the same bytes", dest="source", type=Path, required=True)
    check = actions.add("check", "see whether the Archive is whole", _check)
    flag(check, "--repair", "settle what is safe to settle; what is listed is never removed")
    flag(check, "--json", "one JSON document")
    actions.add("rebuild", "make a lost or damaged catalogue anew from what lies beside the files", _rebuild)
    backup = actions.add("backup", "save everything, also while the Archive runs", _backup)
    argument(backup, "--to FOLDER", "where backups are kept", type=Path, required=True)
    kept = number(_MOST_KEPT, "a number of backups")
    argument(backup, "--keep N", f"how many backups stay (default {_KEPT})", type=kept, default=_KEPT)
    flag(backup, "--verify", "read all of it again afterwards")
    flag(backup, "--json", "one JSON document")
    restore = actions.add("restore", "put an Archive back from a backup into a new directory", _restore)
    argument(restore, "--from FOLDER", "where backups are kept", dest="source", type=Path, required=True)
    argument(restore, "--backup NAME", "which one, by its name; without it, the newest", default="")
    flag(restore, "--json", "one JSON document")


def _audit(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.audit import Audit, fault_message
    from ibi.archive.store.tables import fixity

    here = directory(args)
    here.settings()
    with here.catalogue() as catalogue:
        audit = Audit(catalogue, here.file_store(), time.time)
        with catalogue.reading() as run:
            _, total = fixity.total(run)
        walk: Iterator[AuditResult] = audit.all(go_on=args.go_on)
        if args.ibi:
            holding = held(catalogue, args.ibi)
            walk, total = audit.item(holding), sum(file.size for file in holding.files)
        faults = []
        with Progress(args.data.name, total) as progress:
            for result in walk:
                progress.at(audit.progress.done)
                if result.fault is not None:
                    faults.append(result)
                    if not args.json:
                        print(say(fault_message(result.listed, result.fault)), flush=True)
        with catalogue.reading() as run:
            good = [fixity.last_good(run, each.listed.item, each.listed.file) for each in faults]
    if args.json:
        print(json.dumps(_audit_report(audit, faults, good)))
    else:
        sentence = "{count} files read, {faults} faults"
        print(say(sentence, count=audit.progress.files, faults=len(faults)))
    return 1 if faults else 0


def _audit_report(audit: Audit, faults: Iterable[AuditResult], good: Iterable[str]) -> dict[str, Any]:
    return {
        "files": audit.progress.files,
        "bytes": audit.progress.done,
        "faults": [
            {
                "item": str(listed.forms.main),
                "file": listed.file.name,
                "fault": fault,
                "found": moment,
                "last_good": last_good or None,
            }
            for (listed, fault, moment), last_good in zip(faults, good, strict=True)
        ],
    }


def _repair(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.audit import repair

    name = parse_name(args.ibi)
    with directory(args).item_store() as item_store:
        file = repair(item_store, name, args.file, args.source, user_name())
    tell("{file} of {name} is good again", file=file.name, name=name)
    return 0


def _check(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.check import check
    from ibi.minting.machine import this_machine

    if not args.data.is_dir():
        raise SetupError("{path} does not exist", path=args.data)
    open_, differences = 0, []
    for difference in check(directory(args), this_machine()):
        settled = bool(args.repair and difference.settle)
        if settled and difference.settle:
            difference.settle()
        open_ += not settled
        sentence = say(difference.what)
        remedy = say("settled") if settled else say(difference.remedy)
        differences.append({"problem": sentence, "advice": remedy, "settled": settled})
        if not args.json:
            print(f"{sentence}\n    {remedy}", flush=True)
    if args.json:
        print(json.dumps({"differences": differences, "open": open_}))
    else:
        print(say_count(open_, "{count} difference", "{count} differences"))
    return 1 if open_ else 0


def _rebuild(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.rebuild import rebuild

    rebuilt = rebuild(directory(args))
    for problem in rebuilt.problems:
        tell(problem)
    if not rebuilt.kept:
        tell("the old catalogue could not be read; what had no files is in a backup alone")
    print(say("{added} items added, {changed} brought on", added=rebuilt.added, changed=rebuilt.brought_on))
    return 1 if rebuilt.problems else 0


def _backup(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.backup import Backup, verify
    from ibi.archive.preservation.backup_store import BackupStore
    from ibi.archive.store.tables import fixity

    here, store = directory(args), BackupStore(args.to)
    with here.catalogue() as catalogue, catalogue.reading() as run:
        _, total = fixity.total(run)
    with Progress(args.to.name, total) as progress:
        saved = Backup(here, store, progress.at).run(args.keep)
        if args.verify:
            saved.problems += verify(store, saved.name, progress.at)
    if args.json:
        print(json.dumps({
            "backup": saved.name, "items": saved.items, "files": saved.files, "bytes": saved.bytes,
            "copied": saved.copied, "copied_bytes": saved.copied_bytes, "removed": saved.removed,
            "problems": [say(problem) for problem in saved.problems],
        }))  # fmt: skip
        return 1 if saved.problems else 0
    for problem in saved.problems:
        tell(problem)
    sentence = "{name}: {items} items, {files} files, {copied} of them new"
    print(say(sentence, name=saved.name, items=saved.items, files=saved.files, copied=saved.copied))
    return 1 if saved.problems else 0


def _restore(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.backup import restore
    from ibi.archive.preservation.backup_store import BackupStore

    store = BackupStore(args.source)
    names = store.backups()
    name = args.backup or (names[-1] if names else "")
    if name not in names:
        raise SetupError("there is no backup {name} in {path}", name=name or "-", path=args.source)
    with Progress(args.data.name, store.about(name).bytes) as progress:
        problems = restore(store, name, args.data, progress.at)
        with directory_at(args.data).catalogue() as catalogue:
            items = catalogue.count()
    if args.json:
        print(json.dumps({"backup": name, "items": items, "problems": [say(each) for each in problems]}))
    else:
        for problem in problems:
            tell(problem)
        print(
            say_count(
                items, "{count} item is back, as of {name}", "{count} items are back, as of {name}", name=name
            )
        )
    # Labels may have been given since the backup was made, and none comes twice (T31).
    text = "labels wait until: ibi mint recover --data {data} --moved; if the old Archive still mints, first end that"
    tell(text, data=args.data)
    return 1 if problems else 0
