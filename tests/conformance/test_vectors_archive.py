"""The vectors of the Archive service (R15 chapter 9), run against the pure modules of the Archive."""

from __future__ import annotations

import pytest

from ibi.archive.model.answer import ArchiveIdentity, url_list, url_variant
from ibi.archive.model.item import Holding, StoredFile
from ibi.identifier.forms import IBIForms, Name, parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from support.oracles.url_list_filter import filter_url_list
from support.oracles.vectors import Vector, runs

KEY = "1426203276-5985125171467764"
REPORT = IBIForms.parse("rep sid.inpe.br/mtc-m19/2013/09.04.12.27.57 ibip 8JMKD3MGP7W/3EPGUE5")
METADATA = IBIForms.parse("rep sid.inpe.br/mtc-m19/2013/09.04.12.27.58")
DRAFT = IBIForms.parse("rep iconet.com.br/banon/2009/09.09.22.01 ibip LK47B6W/362SFKH")
ARCHIVE = ArchiveIdentity(
    "mtc-m16d.sid.inpe.br",
    IBIForms.parse("rep sid.inpe.br/mtc-m19@80/2009/08.21.17.02"),
    IBIForms.parse("rep dpi.inpe.br/banon/1998/08.02.08.56"),
)


def stored(name: str) -> StoredFile:
    return StoredFile(name, 0, "0" * 64, "application/octet-stream")


CATALOGUE = [  # what the Archive of Examples 9.4 to 9.12 must have held
    Holding(
        forms=REPORT,
        timestamp="2013-10-04T14:32:14Z",
        files=(stored("Relat%f3rio%20Final.pdf"),),
        metadata_item=METADATA,
    ),
    Holding(
        forms=METADATA,
        timestamp="2013-10-04T14:32:14Z",
        files=(stored("metadata.cgi"),),
        target="metadata.cgi",
    ),
    Holding(
        forms=DRAFT,
        timestamp="2010-01-01T00:00:00Z",
        files=(stored("@relatorio.pdf"), stored("reference.bib")),
        target="@relatorio.pdf",
    ),
]
CALLS = {  # of each printed call: the item, the file path, the verbs, and the pair that it makes
    "call-01": (REPORT, "", "", "state"),
    "call-02": (REPORT, "", "", "timestamp.lastedition"),
    "call-03": (REPORT, "", "", "ibi.metadata"),
    "call-04": (REPORT, "", "", "ibi.lastedition"),
    "call-05": (DRAFT, "", "", "url"),
    "call-06": (REPORT, "", "", "url.metadata"),
    "call-07": (DRAFT, "/reference.bib", "", "url"),
    "call-08": (DRAFT, "", "GetFileList", "url"),
}


def held(name: Name) -> Holding | None:
    return next((holding for holding in CATALOGUE if name in holding.names), None)


def answer_to(ibi: str, path: str, verbs: str) -> UrlList:
    request = UrlRequest(("150.163.2.175",), parse_ibi(ibi), path, VerbList.parse(verbs))
    return url_list(held, ARCHIVE, request, KEY, filtered=False)


@pytest.mark.proves("SVC-04", "SVC-08", "SVC-11", "SVC-14", "SVC-17", "SVC-25")
@runs("service.call")
def test_service_call(vector: Vector) -> None:
    forms, path, verbs, name = CALLS[vector.id]
    assert str(forms.ibip) in vector.input["call"]
    assert f'"{path.strip("/")}"' in vector.input["call"] or not path
    pair = write_pairs({name: answer_to(str(forms.ibip), path, verbs).pairs[name]}).decode()
    if vector.id == "call-08":  # where the page of the file list lies is every platform's own business
        assert vector.expected.startswith("url http://mtc-m16d.sid.inpe.br/displaydoccontent.cgi/")
        assert pair == "url http://mtc-m16d.sid.inpe.br/-/files/iconet.com.br/banon/2009/09.09.22.01"
    else:
        assert pair == vector.expected == vector.input["result"]


def printed_variant(file_path: str, verbs: list[str]) -> int:
    """CRIARPARURL exactly as printed: any verb makes the path forgotten (AMB-39)."""
    if not verbs:
        return 2 if file_path else 1
    return 3 if "GetFileList" in verbs else 1


@pytest.mark.proves("SVC-08", "SVC-09", "AMB-39")
@runs("url.variant")
def test_url_variant(vector: Vector) -> None:
    file_path, verbs = vector.input["filepath"], vector.input["verblist"]
    assert url_variant(file_path, verbs) == vector.expected["recommended"]
    assert printed_variant(file_path, verbs) == vector.expected["as_written"]


@pytest.mark.proves("SVC-18", "SVC-19", "SVC-24", "AMB-56")
@runs("filter")
def test_filter(vector: Vector) -> None:
    pairs = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vector.input["pairs"].items()
    }
    expected = {
        name: tuple(value) if isinstance(value, list) else value for name, value in vector.expected.items()
    }
    kept = filter_url_list(pairs, vector.input["verblist"])
    assert kept == expected
    assert filter_url_list(kept, vector.input["verblist"]) == kept
