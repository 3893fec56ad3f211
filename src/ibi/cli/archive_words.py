"""What can be said after `ibi archive`: its subcommands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path

from ibi.cli.arguments import port, workers

_FIELDS = """\
One JSON object a line. All fields are optional:

  rep, ibip            the names; without any, the item is given both
  aliases              list of older opaque ids of the same item
  key                  your own key for an item without names: it is not named twice
  state                Original (default), Copy or Deleted
  contenttype          Data (default) or Metadata
  timestamp            such as 2009-07-21T13:23:45Z (default: now)
  language             such as en or pt-BR
  transferable         true (default) or false
  url                  a linked item: where it lives
  files, target        {"name": "path relative to FILE"}, names percent-encoded; the one served by default
  file_list_public     true (default) or false
  next_edition         IBI of the next edition
  translations         {"pt": IBI}; "" where the language is not stated
  metadata_item        IBI of the item that is this one's metadata
  metadata             Dublin Core: {"title": ["...", {"value": "...", "lang": "pt"}]}
  formats              {"oai_dc": URL}: where the metadata lie in a format; on the item that is the metadata
"""


def describe(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add `archive` and its subcommands to the commands; returns the parser of `archive`."""
    parser = commands.add_parser("archive", help="make and run an Archive of identified items")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_init(actions)
    join = _add(actions, "join", "name the resolver that the Archive takes part in")
    join.add_argument(
        "--resolver", required=True, metavar="URL", help="the root of the resolver: http://host[:port]"
    )
    join.add_argument("--key", help="the registration key agreed with it, if it is a new one")
    join.add_argument("--json", action="store_true", help="one JSON document")
    fill = _add(actions, "import", "take in items from JSON lines", epilog=_FIELDS)
    fill.add_argument("file", type=Path, metavar="FILE", help="JSON lines, one item each")
    fill.add_argument(
        "--json", action="store_true", help="a JSON line for each refused item, then one with the totals"
    )
    listing = _add(actions, "list", "list the items")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = _add(actions, "show", "show all that is known of an item")
    show.add_argument("ibi", metavar="IBI")
    show.add_argument("--json", action="store_true", help="one JSON document")
    delete = _add(
        actions, "delete", "remove an item for ever; its names stay known as those of a removed item"
    )
    delete.add_argument("ibi", metavar="IBI")
    serve = _add(actions, "serve", "run the Archive")
    serve.add_argument("--bind", default="127.0.0.1:8081", metavar="HOST:PORT", help="where to listen")
    serve.add_argument(
        "--workers", type=workers, default=1, metavar="N", help="processes that share the work"
    )
    return parser


def _add(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=text, description=text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the Archive's data directory"
    )
    return parser


def _add_init(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(actions, "init", "make an Archive")
    parser.add_argument("--address", required=True, metavar="HOST[:PORT]", help="where it will answer")
    parser.add_argument("--ip", required=True, help="the IP address of its server")
    parser.add_argument(
        "--service-ibi", metavar="IBI", help="the IBI of its service; without it, one is minted"
    )
    parser.add_argument(
        "--mint-host", metavar="H", help="the host name in new labels (default: that of the address)"
    )
    parser.add_argument(
        "--mint-port", type=port, metavar="P", help="and its port (default: that of the address)"
    )
    parser.add_argument("--mint-ip", metavar="A", help="the IP address in new IBIps (default: --ip)")
    parser.add_argument(
        "--mint-ip-port", type=port, default=800, metavar="P", help="and its port (default: 800)"
    )
    parser.add_argument(
        "--granularity",
        default="auto",
        metavar="S",
        help="seconds between labels: 60, 1, 0.1, … or auto (default)",
    )
    parser.add_argument(
        "--for-trying", action="store_true", help="mint under names and addresses that nobody owns"
    )
    parser.add_argument("--admin", default="", metavar="MAIL", help="the administrator's mail address")
    parser.add_argument("--platform-software", metavar="IBI", help="the IBI of the software, if it has one")
    parser.add_argument(
        "--resolver", default="", metavar="URL", help="the root of the resolver to take part in"
    )
    parser.add_argument("--key", help="the registration key; without it, a strong one is made")
    parser.add_argument("--json", action="store_true", help="one JSON document")
