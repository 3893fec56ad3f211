"""`python -m proofs.harvest.schemas DIR`: every kind of answer, judged by the schemas of OAI, DCMI and DataCite.

DIR holds them as their publishers give them, in any folders: OAI-PMH.xsd, oai-identifier.xsd, oai_dc.xsd,
simpledc20021212.xsd and the xml.xsd that it imports, DataCite's oai.xsd, and its metadata.xsd of version 4.7 with all
that this includes. They are not ours to hand on, so they are not here; nothing is fetched. Exit status 1 if any fails.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.oai.provider import OAI
from ibi.web.formats import RECORD_FORMATS
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
_SHOWN = 3


class _InFolder(etree.Resolver):  # type: ignore[misc]  # it has no types
    """Finds each schema by its file name, whatever address another one gives for it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._files = {path.name: path for path in folder.rglob("*.xsd")}
        if missing := set(_NAMESPACES.values()) - self._files.keys():
            raise SystemExit(f"{folder} lacks {', '.join(sorted(missing))}")

    def resolve(self, address: str, _name: str, context: Any) -> Any:
        """The schema of a file name."""
        path = self._files.get(address.rpartition("/")[2])
        return None if path is None else self.resolve_filename(str(path), context)


def _schema(folder: Path) -> Any:
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_InFolder(folder))
    imports = "".join(
        f'<import namespace="{name}" schemaLocation="{file}"/>' for name, file in _NAMESPACES.items()
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


def main() -> int:
    """Ask for everything; say what is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m proofs.harvest.schemas", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    schema = _schema(parser.parse_args().folder)
    lines = [line(number, f"Title {number}") for number in range(4, _COUNT)]
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
            judged += 1
            if not schema.validate(answer):
                wrong += 1
                print(question, *list(schema.error_log)[:_SHOWN], sep="\n")
    print(f"{judged} answers judged, {wrong} of them not as the schemas want")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
