"""`ibi archive audit`, `repair`, `check`, `rebuild`, `backup`, `restore`: what keeps an Archive whole."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.cli.archive.common import directory, directory_at, tell, user_name
from ibi.cli.arguments import number
from ibi.errors import NotHeld, SetupError
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from ibi.archive.preservation.audit import Audit
    from ibi.archive.preservation.backup import BackupResult
    from ibi.archive.store.tables.fixity import AuditResult
    from ibi.cli.archive.common import Actions

_KEPT = 7
_MOST_KEPT = 10_000


def add(actions: Actions) -> None:
    """Add the subcommands."""
    audit = actions.add("audit", "read every stored file again, and compare it with its SHA-256", _audit)
    audit.add_argument("ibi", nargs="?", metavar="IBI", help="the files of this item only")
    audit.add_argument(
        "--continue", dest="go_on", action="store_true", help="go on where the last audit was interrupted"
    )
    audit.add_argument("--json", action="store_true", help="one JSON document")
    repair = actions.add("repair", "put the bytes of a damaged file back: the same ones, or nothing", _repair)
    repair.add_argument("ibi", metavar="IBI")
    repair.add_argument("file", metavar="FILE", help="its name in the item, percent-encoded")
    repair.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="PATH", help="a file with the same bytes"
    )
    check = actions.add("check", "see whether the Archive is whole", _check)
    check.add_argument(
        "--repair", action="store_true", help="settle what is safe to settle; what is listed is never removed"
    )
    check.add_argument("--json", action="store_true", help="one JSON document")
    actions.add("rebuild", "make a lost or damaged catalogue anew from what lies beside the files", _rebuild)
    _add_backup(actions)


def _add_backup(actions: Actions) -> None:
    backup = actions.add("backup", "save everything, also while the Archive runs", _backup)
    backup.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where backups are kept")
    backup.add_argument(
        "--keep", type=_count, default=_KEPT, metavar="N", help=f"how many backups stay (default {_KEPT})"
    )
    backup.add_argument("--verify", action="store_true", help="read all of it again afterwards")
    backup.add_argument("--json", action="store_true", help="one JSON document")
    restore = actions.add("restore", "put an Archive back from a backup into a new directory", _restore)
    restore.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="FOLDER", help="where backups are kept"
    )
    restore.add_argument("--backup", default="", metavar="NAME", help="which one (default: the newest)")
    restore.add_argument("--json", action="store_true", help="one JSON document")


def _count(text: str) -> int:
    return number(text, _MOST_KEPT, f"not a number of backups: {text}")


def _audit(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.audit import Audit
    from ibi.archive.store.tables import fixity
    from ibi.cli.arguments import Progress
    from ibi.identifier.forms import parse_name

    here = directory(args)
    here.settings()
    name = parse_name(args.ibi) if args.ibi else None
    with here.catalogue() as catalogue:
        audit = Audit(catalogue, here.file_store(), time.time)
        with catalogue.reading() as run:
            _, total = fixity.total(run)
        walk: Iterator[AuditResult] = audit.all(go_on=args.go_on)
        if name is not None:
            holding = catalogue.holding(name)
            if holding is None:
                raise NotHeld("{name} is not held here", name=name)
            walk, total = audit.item(holding), sum(file.size for file in holding.files)
        with Progress(args.data.name, total) as progress:
            faults = _faults(walk, audit, progress, as_json=args.json)
        with catalogue.reading() as run:
            good = [fixity.last_good(run, each.listed.item, each.listed.file) for each in faults]
    if args.json:
        print(json.dumps(_audit_report(audit, faults, good)))
    else:
        sentence = "{count} files read, {faults} faults"
        print(say(sentence, count=audit.progress.files, faults=len(faults)))
    return 1 if faults else 0


def _faults(walk: Iterable[AuditResult], audit: Audit, progress: Any, *, as_json: bool) -> list[AuditResult]:
    """Go through an audit, and say every fault when it is found."""
    from ibi.archive.preservation.audit import fault_message

    faults = []
    for found in walk:
        progress.at(audit.progress.done)
        if found.fault is not None:
            faults.append(found)
            if not as_json:
                print(say(fault_message(found.listed, found.fault)), flush=True)
    return faults


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
    from ibi.identifier.forms import parse_name

    name = parse_name(args.ibi)
    with directory(args).item_store() as item_store:
        file = repair(item_store, name, args.file, args.source, user_name())
    tell(say("{file} of {name} is good again", file=file.name, name=name))
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
        print(say("{count} differences", count=open_))
    return 1 if open_ else 0


def _rebuild(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.rebuild import rebuild

    rebuilt = rebuild(directory(args))
    for problem in rebuilt.problems:
        tell(say(problem))
    if not rebuilt.kept:
        tell(say("the old catalogue could not be read; what had no files is in a backup alone"))
    print(say("{added} items added, {changed} brought on", added=rebuilt.added, changed=rebuilt.brought_on))
    return 1 if rebuilt.problems else 0


def _backup(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.backup import Backup, verify
    from ibi.archive.preservation.backup_store import BackupStore
    from ibi.archive.store.tables import fixity
    from ibi.cli.arguments import Progress

    here, store = directory(args), BackupStore(args.to)
    with here.catalogue() as catalogue, catalogue.reading() as run:
        _, total = fixity.total(run)
    with Progress(args.to.name, total) as progress:
        saved = Backup(here, store, progress.at).run(args.keep)
        if args.verify:
            saved.problems += verify(store, saved.name, progress.at)
    _tell_saved(saved, as_json=args.json)
    return 1 if saved.problems else 0


def _tell_saved(saved: BackupResult, *, as_json: bool) -> None:
    problems = [say(problem) for problem in saved.problems]
    if as_json:
        print(json.dumps({
            "backup": saved.name, "items": saved.items, "files": saved.files, "bytes": saved.bytes,
            "copied": saved.copied, "copied_bytes": saved.copied_bytes, "removed": saved.removed,
            "problems": problems,
        }))  # fmt: skip
        return
    for problem in problems:
        tell(problem)
    sentence = "{name}: {items} items, {files} files, {copied} of them new"
    print(say(sentence, name=saved.name, items=saved.items, files=saved.files, copied=saved.copied))


def _restore(args: argparse.Namespace) -> int:
    from ibi.archive.preservation.backup import Restore
    from ibi.archive.preservation.backup_store import BackupStore
    from ibi.cli.arguments import Progress

    store = BackupStore(args.source)
    names = store.backups()
    name = args.backup or (names[-1] if names else "")
    if name not in names:
        raise SetupError("there is no backup {name} in {path}", name=name or "-", path=args.source)
    with Progress(args.data.name, store.about(name).bytes) as progress:
        problems = [say(problem) for problem in Restore(store, name, args.data, progress.at).run()]
        with directory_at(args.data).catalogue() as catalogue:
            items = catalogue.count()
    if args.json:
        print(json.dumps({"backup": name, "items": items, "problems": problems}))
    else:
        for problem in problems:
            tell(problem)
        print(say("{count} items are back, as of {name}", count=items, name=name))
    text = "labels wait until: ibi mint recover --data {data} --moved; if the old Archive still mints, first end that"
    tell(say(text, data=args.data))
    return 1 if problems else 0
