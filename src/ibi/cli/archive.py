"""`ibi archive ...`: make an Archive, fill it, look into it, run it."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from ibi.cli.archive_words import describe
from ibi.errors import NotHeld
from ibi.texts import say

if TYPE_CHECKING:
    import argparse

    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.holding import Holding
    from ibi.archive.importing import Refused, Report


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `archive` and its subcommands to the commands."""
    describe(commands).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what was asked. Raises IbiError where it cannot be done."""
    actions = {
        "init": _init,
        "join": _join,
        "import": _import,
        "list": _list,
        "show": _show,
        "delete": _delete,
        "serve": _serve,
    }
    return actions[args.action](args)


def _directory(args: argparse.Namespace) -> ArchiveDirectory:
    from ibi.archive.directory import ArchiveDirectory
    from ibi.minting.machine import this_machine

    return ArchiveDirectory(args.data, this_machine())


def _init(args: argparse.Namespace) -> int:
    from ibi.archive.founding import Wishes, found

    wishes = Wishes(
        address=args.address,
        ip=args.ip,
        service_ibi=args.service_ibi,
        mint_host=args.mint_host,
        mint_port=args.mint_port,
        mint_ip=args.mint_ip,
        mint_ip_port=args.mint_ip_port,
        granularity=args.granularity,
        for_trying=args.for_trying,
        admin=args.admin,
        platform_software=args.platform_software,
        resolver=args.resolver,
        key=args.key,
    )
    settings, warnings = found(_directory(args), wishes)
    for warning in warnings:
        _tell(say(warning))
    _print_registration(settings, as_json=args.json)
    return 0


def _join(args: argparse.Namespace) -> int:
    from ibi.archive.founding import joined

    settings, warnings = joined(_directory(args).settings(), args.resolver, args.key)
    settings.write(args.data)
    for warning in warnings:
        _tell(say(warning))
    _print_registration(settings, as_json=args.json)
    return 0


def _print_registration(settings: Any, *, as_json: bool) -> None:
    """What the resolver's administrator needs: the command, and the mail of REG-01."""
    from ibi.archive.founding import MAIL_SUBJECT, mail_text, register_command

    command, text = register_command(settings), mail_text(settings)
    if as_json:
        print(json.dumps({
            "service_ibi": str(settings.service.main),
            "service": str(settings.service),
            "base_url": f"http://{settings.address}/{settings.service.main}",
            "key": settings.key,
            "register": command,
            "mail": {"subject": MAIL_SUBJECT, "text": text},
        }))  # fmt: skip
        return
    _tell(say("The administrator of the resolver registers this Archive with:"))
    print(command)
    _tell(say("or is asked for it by mail:"))
    print(f"Subject: {MAIL_SUBJECT}\n\n{text}", end="")


def _import(args: argparse.Namespace) -> int:
    from ibi.archive.importing import Importer
    from ibi.cli.progress import Progress

    directory = _directory(args)
    directory.settings()

    def refused(line: Refused) -> None:
        sentence = say(line.why)
        if args.json:
            print(json.dumps({"line": line.line, "problem": sentence}))
        else:
            _tell(say("line {number}: {problem}", number=line.line, problem=sentence))

    size = args.file.stat().st_size if args.file.is_file() else None
    with directory.catalogue() as catalogue, Progress(args.file.name, size) as progress:
        importer = Importer(
            catalogue, directory.storage(), directory.minter(), time.time, refused, progress.at
        )
        report = importer.run(args.file)
    _print_report(report, as_json=args.json)
    return 1 if report.refused else 0


def _print_report(report: Report, *, as_json: bool) -> None:
    if as_json:
        totals = {"added": report.added, "unchanged": report.unchanged, "refused": report.refused}
        print(json.dumps(totals))
        return
    sentence = "{added} added, {unchanged} unchanged, {refused} refused"
    print(say(sentence, added=report.added, unchanged=report.unchanged, refused=report.refused))


def _list(args: argparse.Namespace) -> int:
    from ibi.archive.item_lines import write_item

    directory = _directory(args)
    directory.settings()
    with directory.catalogue() as catalogue:
        for holding in catalogue.all():
            if args.json:
                print(json.dumps(write_item(holding)))
            else:
                where = holding.url or ", ".join(file.name for file in holding.files[:3]) or "-"
                print(f"{holding.state:8}  {holding.forms.main}  {holding.timestamp}  {where}")
    return 0


def _show(args: argparse.Namespace) -> int:
    from ibi.archive.item_lines import write_item

    holding, thanks = _one(args)
    value = {**write_item(holding), "thanks": thanks}
    if args.json:
        print(json.dumps(value))
        return 0
    for name, each in value.items():
        print(f"{name}: {each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)}")
    return 0


def _one(args: argparse.Namespace) -> tuple[Holding, int]:
    from ibi.identifier.forms import parse_name

    name = parse_name(args.ibi)
    directory = _directory(args)
    directory.settings()
    with directory.catalogue() as catalogue:
        holding = catalogue.holding(name)
        if holding is None:
            raise NotHeld("{name} is not held here", name=name)
        return holding, catalogue.thanks(holding.number)


def _delete(args: argparse.Namespace) -> int:
    from ibi.archive.item_lines import timestamp_text
    from ibi.archive.removal import remove
    from ibi.identifier.forms import parse_name

    name = parse_name(args.ibi)
    directory = _directory(args)
    settings = directory.settings()
    with directory.catalogue() as catalogue:
        left = remove(catalogue, directory.storage(), name, timestamp_text(time.time()), settings.service)
    _tell(say("{name} was removed on {date}", name=left.forms.main, date=left.timestamp))
    return 0


def _serve(args: argparse.Namespace) -> int:
    from ibi import assembly
    from ibi.serving.workers import serve

    directory = _directory(args)
    directory.settings()
    with directory.catalogue():
        pass  # a fault shows here, before any process is started
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    with directory.serving():
        serve(
            lambda: [assembly.archive_service(args.data)],
            [args.bind],
            lambda urls: print(f"ready {urls[0]}", flush=True),
            args.workers,
        )
    return 0


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)
