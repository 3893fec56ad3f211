"""`python -m proofs.harvest.schemas DIR [DIR2]`: every kind of answer, judged by the schemas of its publishers.

DIR holds them as their publishers give them, in any folders: OAI-PMH.xsd, oai-identifier.xsd, oai_dc.xsd,
simpledc20021212.xsd and the xml.xsd that it imports, DataCite's oai.xsd, and its metadata.xsd of version 4.7 with all
that this includes. DIR2 holds OpenAIRE's openaire.xsd 4.0 with all that it includes, an older DataCite and xml.xsd
among it. They are not ours to hand on, so they are not here; nothing is fetched. Exit status 1 if any fails.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.oai.provider import OAI
from ibi.web.formats import RECORD_FORMATS, openaire
from proofs.harvest.served import holding, line, name_of

_COUNT = 130
_HOSTILE = "</dc:title>]]>--><!DOCTYPE x>&amp;&#0;<b>\x00\x08\x1b\x7f\ufffe\uffff\u202e\u2028 \U0001f600"
_NAMESPACES = {
    "http://www.openarchives.org/OAI/2.0/": "OAI-PMH.xsd",
    "http://www.openarchives.org/OAI/2.0/oai-identifier": "oai-identifier.xsd",
    "http://www.openarchives.org/OAI/2.0/oai_dc/": "oai_dc.xsd",
    "http://schema.datacite.org/oai/oai-1.1/": "oai.xsd",
    "http://datacite.org/schema/kernel-4": "metadata.xsd",
}
_OPENAIRE = {openaire.NAMESPACE: "openaire.xsd"}
_PLACEHOLDER = '<d:dc xmlns:d="http://www.openarchives.org/OAI/2.0/oai_dc/"><t:title xmlns:t="http://purl.org/dc/elements/1.1/"/></d:dc>'
_SHOWN = 3


class _InFolder(etree.Resolver):  # type: ignore[misc]  # it has no types
    """Finds each schema by its file name, whatever address another one gives for it."""

    def __init__(self, folder: Path, wanted: set[str]) -> None:
        super().__init__()
        self._files = {path.name: path for path in folder.rglob("*.xsd")}
        if missing := wanted - self._files.keys():
            raise SystemExit(f"{folder} lacks {', '.join(sorted(missing))}")

    def resolve(self, address: str, _name: str, context: Any) -> Any:
        """The schema of a file name."""
        path = self._files.get(address.rpartition("/")[2])
        return None if path is None else self.resolve_filename(str(path), context)


def _schema(folder: Path, namespaces: Mapping[str, str]) -> Any:
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_InFolder(folder, set(namespaces.values())))
    imports = "".join(
        f'<import namespace="{name}" schemaLocation="{file}"/>' for name, file in namespaces.items()
    )
    whole = f'<schema xmlns="http://www.w3.org/2001/XMLSchema">{imports}</schema>'
    return etree.XMLSchema(etree.parse(io.BytesIO(whole.encode()), parser))


def _questions(base: str) -> list[dict[str, str]]:
    """One of each kind, good and bad."""
    one = f"oai:{base}:{name_of(1)}"
    queries = [
        {"verb": "Identify"}, {"verb": "ListSets"}, {"verb": "ListMetadataFormats"},
        {"verb": "ListMetadataFormats", "identifier": one}, {"verb": "ListMetadataFormats", "identifier": "oai:x:y"},
        {"verb": ""}, {"verb": "ListRecords"}, {"verb": "ListRecords", "resumptionToken": _HOSTILE},
        {"verb": "ListRecords", "metadataPrefix": "oai_dc", "until": "1990-01-01"},
        {"verb": "ListRecords", "metadataPrefix": "x"}, {"verb": "GetRecord", "identifier": _HOSTILE},
        {"verb": "ListRecords", "metadataPrefix": "oai_dc", "from": "1990-01-01", "until": "2990-01-01"},
    ]  # fmt: skip
    for prefix in (each.prefix for each in RECORD_FORMATS):
        queries += [
            {"verb": verb, "metadataPrefix": prefix, "set": "openaire"}
            for verb in ("ListRecords", "ListIdentifiers")
        ]
        queries += [
            {"verb": "GetRecord", "metadataPrefix": prefix, "identifier": f"oai:{base}:{name_of(number)}"}
            for number in range(4)
        ]
    return queries


def _is_valid(schema: Any, element: Any, question: Mapping[str, str]) -> bool:
    good: bool = schema.validate(element)
    if not good:
        print(question, *list(schema.error_log)[:_SHOWN], sep="\n")
    return good


def main() -> int:
    """Ask for everything; say what is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m proofs.harvest.schemas", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("openaire", type=Path, metavar="DIR2", nargs="?")
    args = parser.parse_args()
    schema = _schema(args.folder, _NAMESPACES)
    of_openaire = _schema(args.openaire, _OPENAIRE) if args.openaire else None
    lines = [line(number, f"Title {number}") for number in range(4, _COUNT)]
    lines[0] |= {
        "next_edition": name_of(5), "translations": {"en": name_of(6)},
        "metadata": {
            "title": [{"value": "T", "lang": "pt"}],
            "creator": ["Silva, Ana (0000-0002-1825-0097)", "Eva 0000-0002-1825-0097"],
            "contributor": ["Lima, Rui"], "subject": ["s"], "description": ["d"], "type": ["mapa"], "coverage": ["c"],
            "source": ["Revista, v. 1, n. 2, p. 3-4"],
            "identifier": ["10.1234/x", "http://far.example/y"], "rights": ["r"],
        },
    }  # fmt: skip
    lines += [
        line(0, _HOSTILE), line(1, "Gone", removed=True),
        line(2, "Soon") | {"access": "embargoed", "embargo": "2999-01-01"},
        {"rep": name_of(3), "url": "http://far.example/3"},
    ]  # fmt: skip
    judged = wrong = 0
    with holding(lines) as archive:
        waiting = _questions("127.0.0.1")
        while waiting:
            question = waiting.pop()
            with urlopen(f"http://127.0.0.1:{archive.port}{OAI}?{urlencode(question)}", timeout=60) as reply:
                answer = etree.fromstring(reply.read())
            token = answer.findtext(".//{*}resumptionToken")
            if token:
                waiting.append({"verb": question["verb"], "resumptionToken": token})
            # Both use one namespace for two versions of DataCite, so a record of OpenAIRE is judged alone.
            for record in list(answer.iter(f"{{{openaire.NAMESPACE}}}resource")):
                header = record.getparent()
                header.replace(record, etree.fromstring(_PLACEHOLDER))
                if of_openaire is not None:
                    wrong += not _is_valid(of_openaire, record, question)
            judged += 1
            wrong += not _is_valid(schema, answer, question)
    print(f"{judged} answers judged, {wrong} of them not as the schemas want")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
