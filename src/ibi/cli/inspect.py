"""`ibi inspect`: shows all that can be read from an identifier or a persistent URL, offline."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.cli.common import argument, flag
from ibi.errors import IbiError, ParseError
from ibi.identifier.forms import IBIForms, Name
from ibi.identifier.generator import TRIAL_DOMAINS, is_public_ip
from ibi.identifier.ibip import EPOCH, IBIp, ibip_prefix
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import DEFAULT_PORT, UniformRepositoryName
from ibi.identifier.unwrapping import MAX_TEXT, Unwrapped, unwrap
from ibi.protocol.persistent_url import PersistentURL
from ibi.runtime.i18n import say
from ibi.runtime.logging import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_ADDRESSES: Final = frozenset({"resolver address", "archive address"})
_MAX_LINE = 8 * MAX_TEXT  # characters of a line on standard input that are read at once


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts of one text, under the names in docs/reference/commands.md, and warnings as sentences."""

    facts: dict[str, Any]
    warnings: tuple[IbiError, ...]

    def json(self) -> str:
        """Return one line of JSON, with warnings in English so that programs can rely on them."""
        return json.dumps({**self.facts, "warnings": self.warnings}, default=str)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command to the dispatcher."""
    parser = subparsers.add_parser(
        "inspect",
        help="read an IBI or a persistent URL, offline",
        description="Print all that can be read from an IBI or a persistent URL, or from a text around one. Offline.",
    )
    text = "an IBI, a persistent URL, a citation; several may be given; - reads lines from stdin"
    argument(parser, "texts TEXT", text, nargs="+")
    flag(parser, "--json", "one JSON document a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Inspect every text. Returns 0 if all have an identifier, else 1; errors go to stderr."""
    status = 0
    for number, text in enumerate(_texts(args.texts)):
        try:
            found = inspect(text)
        except ParseError as error:
            status = 1
            if args.json:
                print(_json_fault(text, error))
            # Flushed, so that on a terminal or in one file both streams are in the order of the texts.
            sys.stdout.flush()
            print(_fault(error), file=sys.stderr)
            continue
        if number and not args.json:
            print()
        print(found.json() if args.json else _for_people(found))
    return status


def inspect(text: str) -> Inspection:
    """Read one text. Raises ParseError if it has no identifier, or a modifier or query without meaning."""
    found = unwrap(text)
    kinds = [kind for kind, _ in found.wrappers]
    facts: dict[str, Any] = {"input": text, **_facts(found.ibi)}
    warnings = [*_warnings(found.ibi), *_of_two_forms(text)]
    if found.after or _ADDRESSES.intersection(kinds):
        url_facts, url_warnings = _url(text, found)
        facts.update(url_facts)
        warnings += url_warnings
    facts["peeled"] = [{"kind": kind, "text": piece} for kind, piece in found.wrappers]
    facts["others"] = [str(other) for other in found.others]
    facts["other_names"] = [_of_other(other) for other in found.others]
    return Inspection(facts, tuple(warnings))


def _of_other(name: Name) -> dict[str, Any]:
    """Return the facts of a further name in the text, with its warnings, which are still sentences."""
    return {**_facts(name), "warnings": tuple(_warnings(name))}


# --- the facts of an identifier ----------------------------------------------------------------------------


def _facts(name: Name) -> dict[str, Any]:
    facts: dict[str, Any] = {"canonical": name.canonical}
    if isinstance(name, UniformRepositoryName):
        port = name.port if name.separator else DEFAULT_PORT
        facts |= {"form": "rep", "host": name.host, "port": port, "public": _is_owned(name.host)}
    elif isinstance(name, IBIp):
        public = is_public_ip(name.ip) if name.ip else None
        facts |= {"form": "ibip", "ip": name.ip, "port": name.port, "public": public}
    elif name.ip:
        facts |= {"form": "legacy", "ip": name.ip, "port": name.port, "public": is_public_ip(name.ip)}
    else:
        public = _is_owned(name.host) if name.host else None
        facts |= {"form": "legacy", "host": name.host, "port": name.port, "public": public}
    return {**facts, "datetime": name.date.text, "precision": name.date.precision}


def _is_owned(host: str) -> bool:
    return host.removesuffix(".").rpartition(".")[2] not in TRIAL_DOMAINS


def _warnings(name: Name) -> Iterator[IbiError]:
    if isinstance(name, UniformRepositoryName):
        yield from _of_repository_name(name)
    else:
        yield from _of_opaque_label(name)
    seconds = name.date.seconds
    if name.date.text is None:
        yield IbiError("no calendar has this date")
    elif seconds is not None and seconds < EPOCH:
        yield IbiError("no label is older than August 1995")


def _of_repository_name(name: UniformRepositoryName) -> Iterator[IbiError]:
    if not _is_owned(name.host):
        problem = "the host name {host} has no owner, so its labels are only for trying out"
        yield IbiError(problem, host=name.host)
    if name.separator and name.port is None:
        yield IbiError("no computer has this port")
    elif name.separator and name.port == DEFAULT_PORT:
        yield IbiError("port 80 is written out; the name without it is another name")


def _of_opaque_label(name: IBIp | LegacyId) -> Iterator[IbiError]:
    if isinstance(name, LegacyId):
        yield IbiError("this is an opaque id from before the standard: upper and lower case matter")
    elif name.ip is None:
        yield IbiError("the prefix spells no IP address")
    elif name.port is not None and (made := ibip_prefix(name.ip, name.port)) != name.prefix.upper():
        yield IbiError("the prefix would be written {made}; another spelling is another label", made=made)
    if name.ip and not is_public_ip(name.ip):
        problem = "the address {ip} is not public: such labels are read for ever, but no longer made"
        yield IbiError(problem, ip=name.ip)


def _of_two_forms(text: str) -> Iterator[IbiError]:
    """Yield a warning if the text is both forms of one item and their times differ (GEN-08)."""
    try:
        forms = IBIForms.parse(" ".join(text.strip().removeprefix("{").removesuffix("}").split()))
    except ParseError:
        return
    if forms.rep and forms.ibip and forms.rep.date[:2] != forms.ibip.date[:2]:
        problem = "the two forms tell different times, {rep} and {ibip}"
        yield IbiError(problem, rep=forms.rep.date.text, ibip=forms.ibip.date.text)


def _url(text: str, found: Unwrapped) -> tuple[dict[str, Any], list[IbiError]]:
    core = f"{found.ibi}{found.after}"
    try:
        url = PersistentURL.from_text(f"/{core}")
    except ParseError as fault:  # points into the given text, if the URL stands there unchanged
        at = text.find(core)
        raise (fault.within(fault.what, text, at - 1) if at >= 0 else fault) from None
    facts = {
        "modifier": url.modifier,
        "verbs": list(url.verbs.verbs),
        "relation": url.relation.qualifier,
        "file_path": url.file_path,
        "original_required": url.original_required,
        "foreign_query": url.foreign_query,
    }
    problem = "the system knows no parameter {pair}"
    return facts, [IbiError(problem, pair=pair) for pair in url.ignored]


# --- input and output --------------------------------------------------------------------------------------


def _texts(given: list[str]) -> Iterator[str]:
    """Yield the texts; for "-" the lines of standard input that are not blank."""
    for text in given:
        if text != "-":
            yield text
            continue
        whole = True
        # A line that is too long is cut; the piece is still longer than MAX_TEXT, so it is refused.
        while line := sys.stdin.readline(_MAX_LINE):
            if whole and line.strip():
                yield line.removesuffix("\n").removesuffix("\r")
            whole = line.endswith("\n")


def _fault(error: ParseError) -> str:
    """Return the sentence, the text with carets under the fault, and the nearest valid spelling."""
    lines = [f"ibi: {say(error)}", *(f"  {line}" for line in error.caret().split("\n"))]
    if error.suggestion:
        lines.append(say("the nearest valid spelling: {spelling}", spelling=error.suggestion))
    return "\n".join(lines)


def _json_fault(text: str, error: ParseError) -> str:
    fault = {"problem": str(error), "text": error.text, "start": error.start, "end": error.end}
    return json.dumps({"input": text, "error": {**fault, "suggestion": error.suggestion}})


_FORMS = {"rep": "uniform repository name", "ibip": "IBIp", "legacy": "legacy opaque id"}
WRAPPERS = {
    "invisible characters": "invisible characters",
    "entity": "entity",
    "percent encoding": "percent encoding",
    "blanks": "blanks",
    "line break": "line break",
    "resolver address": "resolver address",
    "archive address": "archive address",
    "url scheme": "url scheme",
    "archive path": "archive path",
    "cgi wrapper": "cgi wrapper",
    "upn": "upn",
    "ibi scheme": "ibi scheme",
    "relative path": "relative path",
    "query parameter": "query parameter",
    "wrapper site": "wrapper site",
    "report code": "report code",
    "fragment": "fragment",
    "punctuation": "punctuation",
    "words": "words",
}
"""The kinds of what stands around a name (`identifier.wrappers`), for people."""
_PRECISIONS = {60: "to the minute", 1: "to the second"}


def _for_people(found: Inspection) -> str:
    facts = found.facts
    rows = _name_rows(facts)
    if "modifier" in facts:
        rows += _url_rows(facts)
    rows += [
        (say("taken off"), f"{say(WRAPPERS[piece['kind']])}: {piece['text']}") for piece in facts["peeled"]
    ]
    rows += [(say("remark"), say(warning)) for warning in found.warnings]
    for spelling, other in zip(facts["others"], facts["other_names"], strict=True):
        rows += [(say("also there"), spelling), *_name_rows(other)]
        rows += [(say("remark"), say(warning)) for warning in other["warnings"]]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title:<{width}}  {escaped(value)}" for title, value in rows)


def _name_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a name for people: the title and the value of each row."""
    rows = [(say("form"), say(_FORMS[facts["form"]])), (say("canonical"), facts["canonical"])]
    titles = {"host": say("host"), "ip": "ip", "port": say("port")}
    rows += [(title, str(facts[key])) for key, title in titles.items() if facts.get(key) is not None]
    if facts["datetime"]:
        precision = say(_PRECISIONS.get(facts["precision"], "to a fraction of a second"))
        rows.append((say("time"), f"{facts['datetime']} ({precision})"))
    if facts["public"] is not None:
        rows.append((say("public"), say("yes") if facts["public"] else say("no")))
    return rows


def _url_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    rows = (
        (say("modifier"), facts["modifier"]),
        (say("verbs"), " ".join(facts["verbs"])),
        (say("relation"), facts["relation"]),
        (say("file path"), facts["file_path"]),
        (say("original required"), say("yes") if facts["original_required"] else ""),
        (say("for the item"), facts["foreign_query"]),
    )
    return ((title, value) for title, value in rows if value)
