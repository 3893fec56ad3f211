"""True texts, of which faulty ones are made: vectors and plays of the conformance suite, and names of the wild."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUITE: Final = Path(__file__).resolve().parents[2] / "conformance"


@cache
def vectors(*groups: str) -> tuple[str, ...]:
    """All texts that are given or expected in these groups of vectors."""
    found: dict[str, None] = {}
    for group in groups:
        for line in (_SUITE / "vectors" / f"{group}.jsonl").read_text(encoding="utf-8").splitlines():
            vector = json.loads(line)
            found |= dict.fromkeys([*_texts(vector["input"]), *_texts(vector["expected"])])
    return tuple(found)


@cache
def wild() -> tuple[str, ...]:
    """Identifiers of the public web, and the URLs in which they were found."""
    path = _SUITE / "wild" / "real_identifiers.jsonl"
    real = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(text for each in real for text in (each["ibi"], *each["found_as"]))


@cache
def items() -> tuple[str, ...]:
    """Items as JSON lines."""
    path = _SUITE / "wild" / "real_items.jsonl"
    return (*path.read_text(encoding="utf-8").splitlines()[:40], *map(json.dumps, ITEMS))


@cache
def plays() -> tuple[str, ...]:
    """What Archives answer in the plays, a pair a line."""
    found = []
    for path in sorted((_SUITE / "scenarios").glob("*.play")):
        for line in path.read_text(encoding="utf-8").splitlines():
            _, answers, pairs = line.partition("  ")
            if answers and "ANSWERS" in line:
                found.append(pairs.strip().replace("  ", "\r\n"))
    return tuple(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


REP: Final = "sid.inpe.br/mtc-m19/2013/09.18.13.35"
IBIP: Final = "8JMKD3MGP7W/3EPGUE5"

ITEM: Final[dict[str, Any]] = {
    "rep": REP,
    "ibip": IBIP,
    "aliases": ["6RPa7umaZ/UaJFT"],
    "key": "k1",
    "state": "Original",
    "contenttype": "Data",
    "timestamp": "2014-01-02T17:23:57Z",
    "language": "pt-BR",
    "transferable": True,
    "files": {"doc/a%20b.pdf": "a b.pdf", "index.html": "index.html"},
    "target": "index.html",
    "file_list_public": False,
    "next_edition": "8JMKD3MGP7W/3FUQHC5",
    "translations": {"en": "rep sid.inpe.br/x/2010/01.01.00.00 ibip LK47B6W/362SFKH", "": "LK47B6W/362SFKH"},
    "metadata_item": "dpi.inpe.br/banon/1999/01.09.22.14",
    "metadata": {"title": ["One & <two>", {"value": "Um", "lang": "pt"}], "creator": "Banon, G."},
    "access": "embargoed",
    "embargo": "2027-01-31",
    "rights": "© all",
    "licence": "https://creativecommons.org/licenses/by/4.0/",
}
ITEMS: Final[tuple[dict[str, Any], ...]] = (
    ITEM,
    {
        "rep": "a.example/b/2010/01.01.00.00",
        "url": "http://far.example/x?y=1",
        "formats": {"mods": "http://far.example/m"},
    },
    {"ibip": IBIP, "state": "Deleted", "reason": "a mistake"},
    {"url": "http://far.example/"},
)

DESCRIPTION: Final[dict[str, Any]] = {
    "rep": REP,
    "ibip": IBIP,
    "timestamp": "2014-01-02T17:23:57Z",
    "files": {"a.pdf": {"size": 5, "sha256": "ab" * 32, "type": "application/pdf"}},
    "metadata": {"title": ["x"]},
    "url": None,
}

BIBTEX: Final = (
    (
        "@string{mar = \"March\"}\n@inproceedings{k1, title = {\\'{I}ndice de S{\\~a}o Jos\\'e --- {IBI}}, "
        "author = {Banon, Gerald Jean Francis and Lise Christine Banon}, year = 2007, month = mar, "
        'doi = "10.1234/AB\\_c", ibi = "8JMKD3MGP8W/35MME4E", url = {http://far.example/x\\_y}, '
        'language = "Portuguese"}\n'
    ),
    "@misc{k, title = {T}, identifier = {see dpi.inpe.br/x/2006/11.15.22.53.}}\n",
    "@misc{a, title = {\xc3\xa9}}\n@misc{b, title = {\xc3\xa9}}\n@misc{c, title = {T}, url = {http://a.example/\xff}}\n",
    '@article(k2, title = "a" # mar # "b", abstract = {Two\n lines \\& more})\nnonsense @comment{x}\n',
)
TABLES: Final = (
    "rep,title,creator,files\n" + REP + ',"One, two",A; B,index.html=i.html;b.txt\n',
    "rep,title,url,identifier\n,\xc3\xa9,,\n,\xc3\xa9,,\n,x,http://a.example/\xff,doi:10.1234/\xff\n",
    "ibi;title@pt;url;language;transferable\n8JMKD3MGP8W/35MME4E;Um;http://far.example/;Portuguese;sim\n",
    'ibip\tmetadata.title\tformats.mods\taliases\n8JMKD3MGP8W/35MME4E\t"a ""b"""\thttp://a.example/\t6RPa7umaZ/UaJFT\n',
)
OAI: Final = (
    (
        '<?xml version="1.0" encoding="UTF-8"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
        "<responseDate>2020-01-01T00:00:00Z</responseDate>"
        "<ListRecords><record><header><identifier>oai:a.example:1</identifier>"
        "<datestamp>2020-01-01</datestamp></header><metadata>"
        '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        '<dc:title xml:lang="pt">T&#233;</dc:title><dc:identifier>http://a.example/1</dc:identifier>'
        "<dc:identifier>10.1234/abc</dc:identifier><dc:language>por</dc:language></oai_dc:dc></metadata></record>"
        '<record><header status="deleted"><identifier>oai:a.example:2</identifier></header></record>'
        "<resumptionToken>t</resumptionToken></ListRecords></OAI-PMH>"
    ),
    '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument">no</error></OAI-PMH>',
    '<!DOCTYPE a [<!ENTITY b "c">]><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">&b;</OAI-PMH>',
    '<?xml version="1.0" encoding="utf-7"?><a/>',
)
MAILS: Final = (
    "archiveserviceibi = dpi.inpe.br/banon/1999/01.09.22.14\nregistrationkey = 1234567890\n",
    (
        "From: =?utf-8?q?B=C3=A9?= <a@a.example>\nTo: b@b.example\nSubject: x\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain; charset=utf-8\n'
        "Content-Transfer-Encoding: base64\n\n"
        "YXJjaGl2ZXNlcnZpY2VpYmk9YS5leGFtcGxlL2IvMjAxMC8wMS4wMS4wMC4wMApyZWdpc3RyYXRpb25rZXk9MTIz"
        "NDU2Nzg5MAo=\n--x--\n"
    ),
    (
        "From: a@a.example\nContent-Type: text/plain; charset*=x''%ff\nContent-Transfer-Encoding: quoted-printable\n\n"
        "> archiveserviceibi=3D dpi.inpe.br/banon/1999/01.09.22.14\n> registrationkey =3D 1234567890\n"
    ),
)
FORM: Final = (
    (
        '--b\r\nContent-Disposition: form-data; name="item"\r\n\r\n{}\r\n--b\r\n'
        'Content-Disposition: form-data; name="file"; '
        'filename="a b.txt"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--b--\r\n'
    ),
    "--b\r\nContent-Disposition: form-data; name=\"data/a%20b.txt\"; filename*=UTF-8''x\r\n\r\nabc\r\n--b--\r\n",
)
