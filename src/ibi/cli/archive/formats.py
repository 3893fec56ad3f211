"""`ibi archive show IBI --format NAME`: an item as a format for machines or for citing has it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ibi.errors import BadItem, NotHeld

if TYPE_CHECKING:
    import argparse

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.settings import ArchiveSettings


def add(show: argparse.ArgumentParser) -> None:
    """Add the options."""
    show.add_argument(
        "--format", metavar="NAME", help="as it is given to readers: bibtex, ris, csl, citation and others"
    )
    show.add_argument("--style", metavar="NAME", help="of a citation: abnt or apa (by default)")
    show.add_argument("--locale", metavar="TAG", help="of a citation: en (by default) or pt-BR")


def check(args: argparse.Namespace) -> None:
    """Raises BadItem for what only a citation has."""
    if args.format != "citation" and (args.style or args.locale):
        raise BadItem("--style and --locale belong to --format citation")


def print_format(
    args: argparse.Namespace, settings: ArchiveSettings, catalogue: Catalogue, holding: Holding
) -> int:
    """Write the document to standard output, byte for byte. Raises NotHeld for a format that there is not."""
    from ibi.archive.access import day_of
    from ibi.archive.service import identity_of
    from ibi.archive.website.formats import described
    from ibi.web.formats.table import FORMATS

    formats = {each.name: each for each in FORMATS}
    name = holding.forms.main
    if args.format not in formats:
        problem = "there are no metadata of {name} in this format; there are: {formats}"
        raise NotHeld(problem, name=name, formats=", ".join(formats))
    base, today = identity_of(settings).base, day_of(time.time())
    item = described(catalogue.holding, holding, base, settings.resolver, settings.address, today)
    if item is None:
        raise NotHeld("this Archive keeps no metadata of {name} itself", name=name)
    options = {"style": args.style, "locale": args.locale}
    given = {option: value for option, value in options.items() if value}
    document = formats[args.format].write(item, given)
    sys.stdout.buffer.write(document if document.endswith(b"\n") else document + b"\n")
    return 0
