"""Write the XML of OAI-PMH 2.0 (its clause 3.2 and chapter 4).

Texts from outside are inserted only by `xml_text` and `xml_value`, which drop characters that XML 1.0
forbids. `RecordFormat` is a metadata format for harvesters; `app` supplies the functions that write it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ibi.archive.model.formats import DescribedItem


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """One format of records.

    `prefix`: the metadataPrefix; `schema`: the URL of its XML Schema; `namespace`: that of its root element;
    `write`: any item -> one XML element that declares its own namespaces and schema.
    """

    prefix: str
    schema: str
    namespace: str
    write: Callable[[DescribedItem], str]


_HEAD: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">\n'
)
_OAI_IDENTIFIER: Final = (
    "<description>"
    '<oai-identifier xmlns="http://www.openarchives.org/OAI/2.0/oai-identifier"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai-identifier'
    ' http://www.openarchives.org/OAI/2.0/oai-identifier.xsd">'
    "<scheme>oai</scheme><repositoryIdentifier>{domain}</repositoryIdentifier><delimiter>:</delimiter>"
    "<sampleIdentifier>{sample}</sampleIdentifier></oai-identifier></description>\n"
)
OAI_DC_HEAD: Final = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd">'
)
_DESCRIPTION: Final = (
    f"<description>{OAI_DC_HEAD}<dc:title>{{title}}</dc:title>"
    "<dc:description>{description}</dc:description></oai_dc:dc></description>\n"
)
_DOMAIN: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9\-]*(?:\.[a-zA-Z][a-zA-Z0-9\-]*)+")
NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 forbids."""
_PLAIN: Final = re.compile("[\x20!#-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
"""Texts that need no escaping: nearly all texts. One match is faster than searching for each character."""


def xml_text(text: str) -> str:
    """Return a text from outside as the content of an element; a parser would read a bare CR as a line feed."""
    return text if _PLAIN.fullmatch(text) else escape(NOT_XML.sub("", text), {"\r": "&#13;"})


def xml_value(text: str) -> str:
    """Return a text from outside as the value of an attribute, with quotation marks."""
    return f'"{text}"' if _PLAIN.fullmatch(text) else quoteattr(NOT_XML.sub("", text))


def moment(seconds: int) -> str:
    """Return POSIX seconds in the form of OAI-PMH: 2026-11-22T10:30:00Z."""
    # On some systems strftime drops the leading zeros of years before 1000.
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def document(base: str, now: int, arguments: Mapping[str, str], inside: str) -> bytes:
    """Write an answer; `arguments`: those of the request, with `verb`; {} if the request was malformed."""
    words = "".join(f" {name}={xml_value(value)}" for name, value in arguments.items())
    head = f"{_HEAD}<responseDate>{moment(now)}</responseDate>\n<request{words}>{xml_text(base)}</request>\n"
    return f"{head}{inside}</OAI-PMH>\n".encode()


def identify(
    base: str, name: str, mail: str, earliest: int, domain: str, sample: str, description: str
) -> str:
    """Write the answer to Identify."""
    # OAI identifiers cannot have a domain without a dot: then the answer does not describe them.
    described = (
        _OAI_IDENTIFIER.format(domain=domain, sample=xml_text(sample)) if _DOMAIN.fullmatch(domain) else ""
    )
    if description:
        described += _DESCRIPTION.format(title=xml_text(name), description=xml_text(description))
    return (
        f"<Identify>\n<repositoryName>{xml_text(name)}</repositoryName>\n<baseURL>{xml_text(base)}</baseURL>\n"
        f"<protocolVersion>2.0</protocolVersion>\n<adminEmail>{xml_text(mail)}</adminEmail>\n"
        f"<earliestDatestamp>{moment(earliest)}</earliestDatestamp>\n<deletedRecord>persistent</deletedRecord>\n"
        f"<granularity>YYYY-MM-DDThh:mm:ssZ</granularity>\n{described}</Identify>\n"
    )


def formats(known: Iterable[RecordFormat]) -> str:
    """Write the formats of records."""
    lines = (
        f"<metadataFormat><metadataPrefix>{each.prefix}</metadataPrefix><schema>{each.schema}</schema>"
        f"<metadataNamespace>{each.namespace}</metadataNamespace></metadataFormat>\n"
        for each in known
    )
    return listed("ListMetadataFormats", lines)


def sets(known: Iterable[tuple[str, str]]) -> str:
    """Write the sets: setSpec and name of each."""
    lines = (
        f"<set><setSpec>{spec}</setSpec><setName>{xml_text(name)}</setName></set>\n" for spec, name in known
    )
    return listed("ListSets", lines)


def header(identifier: str, stamp: int, specs: Iterable[str], *, removed: bool) -> str:
    """Write the header of a record; `stamp` in POSIX seconds, `specs`: the sets that it is in."""
    status = ' status="deleted"' if removed else ""
    parts = "".join(f"<setSpec>{spec}</setSpec>" for spec in specs)
    return (
        f"<header{status}><identifier>{xml_text(identifier)}</identifier>"
        f"<datestamp>{moment(stamp)}</datestamp>{parts}</header>\n"
    )


def record(header: str, metadata: str) -> str:
    """Write a record; `metadata`: one XML element, "" for a removed item."""
    inside = f"<metadata>{metadata}</metadata>" if metadata else ""
    return f"<record>{header}{inside}</record>\n"


def resumption(token: str, cursor: int, size: int, expires: int) -> str:
    """Write the resumptionToken after the records of a page, "" on the last page; `expires` in POSIX seconds.

    `size`: how many records there were when the list began; `cursor`: how many came before this page.
    """
    until = f' expirationDate="{moment(expires)}"' if token else ""
    return f'<resumptionToken{until} completeListSize="{size}" cursor="{cursor}">{token}</resumptionToken>\n'


def listed(verb: str, lines: Iterable[str], ending: str = "") -> str:
    """Write the elements of a list; `ending`: its `resumption`, "" if the whole list is in one answer."""
    return "".join((f"<{verb}>\n", *lines, ending, f"</{verb}>\n"))
