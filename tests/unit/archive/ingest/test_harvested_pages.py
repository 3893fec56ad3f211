"""Pages of a harvest, as they are read: every part of a record, every limit, however the bytes are cut."""

from __future__ import annotations

import pytest

from ibi.archive.ingest.harvesting import PageReader, RecordPage
from ibi.archive.ingest.sources.oai_records import OaiRecord
from ibi.errors import PeerGarbled

OAI = "http://www.openarchives.org/OAI/2.0/"
DC = "http://purl.org/dc/elements/1.1/"
BEGIN = f'<OAI-PMH xmlns="{OAI}"><ListRecords>'
END = "</ListRecords></OAI-PMH>"
WHOLE = f"""<?xml version="1.0"?>
<OAI-PMH xmlns="{OAI}" xmlns:dc="{DC}" xmlns:x="urn:x">
 <responseDate> 2020-01-02T00:00:00Z </responseDate>
 <identifier>outside</identifier><datestamp>outside</datestamp><dc:title>outside</dc:title>
 <ListRecords>
  <record>
   <header><identifier>one</identifier><datestamp>2020-01-01</datestamp></header>
   <metadata>
    <dc:dc xml:lang="en">
     <dc:title xml:lang="pt">A
       maré</dc:title>
     <dc:title xml:lang="a b">The tide</dc:title>
     <dc:creator> </dc:creator><dc:colour>red</dc:colour><x:title>other</x:title>
     <dc:date xml:lang="pt-BR-x-abcdefgh">2019</dc:date><dc:type>text</dc:type>
     <identifier>inside</identifier><datestamp>inside</datestamp><dc:identifier>http://far.example/</dc:identifier>
    </dc:dc>
   </metadata>
   <about><dc:title>of the record</dc:title><identifier>later</identifier><datestamp>later</datestamp></about>
  </record>
  <record><header status="deleted"><identifier>two</identifier><datestamp>2020-01-02</datestamp></header></record>
  <record><header status="else"><identifier></identifier></header></record>
  <resumptionToken> next one </resumptionToken>
 </ListRecords>
</OAI-PMH>
"""
PAGE = RecordPage(
    "2020-01-02T00:00:00Z",
    [
        OaiRecord(
            "one",
            "2020-01-01",
            values=[
                ("title", "A maré", "pt"),
                ("title", "The tide", ""),
                ("date", "2019", "pt-BR-x-abcdefgh"),
                ("type", "text", ""),
                ("identifier", "http://far.example/", ""),
            ],
        ),
        OaiRecord("two", "2020-01-02", deleted=True),
        OaiRecord(),
    ],
    "next one",
)


def read(text: str, size: int = 1 << 20) -> RecordPage:
    """The page of an answer that comes in pieces of this size."""
    reader, body = PageReader(), text.encode()
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size])
    return reader.close()


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_each_part_of_a_record_is_read_where_it_belongs(size: int) -> None:
    assert read(WHOLE, size) == PAGE


def test_what_stands_in_the_metadata_is_no_part_of_the_header() -> None:
    inside = "<identifier>inside</identifier><datestamp>inside</datestamp>"
    record = f"<record><header/><metadata>{inside}</metadata><about/></record>"
    assert read(BEGIN + record + END).records == [OaiRecord()]


def test_a_long_page_is_read_in_pieces_of_any_size() -> None:
    records = "".join(f"<record><header><identifier>{n}</identifier></header></record>" for n in range(3000))
    for size in (1 << 13, 1 << 14, 1 << 20):
        found = read(BEGIN + records + END, size).records
        assert [each.identifier for each in found] == [str(number) for number in range(3000)]


def test_a_page_has_20000_records_at_most() -> None:
    assert len(read(BEGIN + "<record/>" * 20_000 + END).records) == 20_000
    with pytest.raises(PeerGarbled) as refused:
        read(BEGIN + "<record/>" * 20_001 + END)
    assert str(refused.value) == "the answer has more than 20000 records"


def test_elements_are_nested_64_deep_at_most() -> None:
    def nested(depth: int) -> str:
        return BEGIN + "<a>" * (depth - 2) + "</a>" * (depth - 2) + END

    assert read(nested(64)) == RecordPage()
    with pytest.raises(PeerGarbled) as refused:
        read(nested(65))
    assert str(refused.value) == "the answer is nested too deeply"


@pytest.mark.parametrize("length", [199, 200, 201])
def test_what_a_repository_says_of_itself_is_kept_to_200_characters(length: int) -> None:
    word = "x" * length
    found = read(
        f'<OAI-PMH xmlns="{OAI}"><responseDate>{word}</responseDate><error code="{word}">{word}</error></OAI-PMH>'
    )
    assert found == RecordPage(word[:200], fault=word[:200], words=word[:200])


@pytest.mark.parametrize("attribute", ["", ' code=""'])
def test_an_error_without_a_code_is_one_all_the_same(attribute: str) -> None:
    assert read(f'<OAI-PMH xmlns="{OAI}"><error{attribute}/></OAI-PMH>') == RecordPage(fault="error")


@pytest.mark.parametrize("root", ["html", f'OAI-PMH xmlns="{DC}"'])
def test_another_document_is_refused_at_its_first_element(root: str) -> None:
    reader = PageReader()
    with pytest.raises(PeerGarbled) as refused:
        reader.feed(f"<{root}>".encode() + b" " * (1 << 14))
    assert str(refused.value) == "the answer does not come from an OAI-PMH repository"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<a>\n<b></a>", "the answer is not XML in line 2: mismatched tag"),
        ("", "the answer is not XML in line 1: no element found"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "the answer is in an unknown encoding"),
        *(
            (text, "the answer contains a document type or an entity, which is not accepted")
            for text in ("<!DOCTYPE a>", '<!DOCTYPE a SYSTEM "http://far.example/a.dtd"><a/>')
        ),
    ],
)
def test_what_is_no_answer_is_refused_with_its_reason(text: str, sentence: str) -> None:
    text = text.replace("<a>", f'<OAI-PMH xmlns="{OAI}">').replace("</a>", "</OAI-PMH>")
    with pytest.raises(PeerGarbled) as refused:
        read(text)
    assert str(refused.value) == sentence
