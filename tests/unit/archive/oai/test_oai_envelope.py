"""The XML of answers to harvesters, whole."""

from __future__ import annotations

import pytest

from ibi.archive.oai import envelope
from ibi.archive.oai.envelope import RecordFormat

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">\n'
)
DESCRIBED = (
    "<description>"
    '<oai-identifier xmlns="http://www.openarchives.org/OAI/2.0/oai-identifier"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai-identifier'
    ' http://www.openarchives.org/OAI/2.0/oai-identifier.xsd">'
    "<scheme>oai</scheme><repositoryIdentifier>a.example</repositoryIdentifier><delimiter>:</delimiter>"
    "<sampleIdentifier>oai:a.example:&lt;x&gt;</sampleIdentifier></oai-identifier></description>\n"
)
ABOUT = (
    '<description><oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd">'
    "<dc:title>A &amp; B</dc:title><dc:description>a &gt; b</dc:description></oai_dc:dc></description>\n"
)


def identified(domain: str = "a.example", description: str = "") -> str:
    return envelope.identify(
        "http://a.example/-/oai", "A & B", "a@a.example", 0, domain, "oai:a.example:<x>", description
    )


def test_an_answer_repeats_its_request_between_head_and_end() -> None:
    arguments = {"verb": "ListRecords", "set": '"<&\x00'}
    assert envelope.document("http://a.example/?a&b", 1_700_000_000, arguments, "<x/>\n").decode() == (
        f"{HEAD}<responseDate>2023-11-14T22:13:20Z</responseDate>\n"
        '<request verb="ListRecords" set=\'"&lt;&amp;\'>http://a.example/?a&amp;b</request>\n<x/>\n</OAI-PMH>\n'
    )
    bare = envelope.document("http://a.example", 0, {}, "").decode()
    assert bare == (
        f"{HEAD}<responseDate>1970-01-01T00:00:00Z</responseDate>\n<request>http://a.example</request>\n</OAI-PMH>\n"
    )


def test_identify_describes_the_repository_and_what_it_can_describe() -> None:
    facts = (
        "<Identify>\n<repositoryName>A &amp; B</repositoryName>\n<baseURL>http://a.example/-/oai</baseURL>\n"
        "<protocolVersion>2.0</protocolVersion>\n<adminEmail>a@a.example</adminEmail>\n"
        "<earliestDatestamp>1970-01-01T00:00:00Z</earliestDatestamp>\n<deletedRecord>persistent</deletedRecord>\n"
        "<granularity>YYYY-MM-DDThh:mm:ssZ</granularity>\n"
    )
    assert identified() == f"{facts}{DESCRIBED}</Identify>\n"
    assert identified(description="a > b") == f"{facts}{DESCRIBED}{ABOUT}</Identify>\n"
    for domain in ("localhost", "127.0.0.1", "a.example:80", "a..b", "1a.example"):
        assert identified(domain) == f"{facts}</Identify>\n"


def test_lists_have_their_elements_and_their_end() -> None:
    known = RecordFormat("oai_dc", "http://s.example/x.xsd", "http://n.example/", lambda _: "")
    assert envelope.formats([known]) == (
        "<ListMetadataFormats>\n<metadataFormat><metadataPrefix>oai_dc</metadataPrefix>"
        "<schema>http://s.example/x.xsd</schema><metadataNamespace>http://n.example/</metadataNamespace>"
        "</metadataFormat>\n</ListMetadataFormats>\n"
    )
    assert envelope.sets([("a-b", "A & B")]) == (
        "<ListSets>\n<set><setSpec>a-b</setSpec><setName>A &amp; B</setName></set>\n</ListSets>\n"
    )
    assert envelope.listed("ListRecords", ["a", "b"], "c") == "<ListRecords>\nabc</ListRecords>\n"


def test_a_record_has_a_header_and_unless_it_is_removed_metadata() -> None:
    inside = "<identifier>oai:a:&lt;</identifier><datestamp>1970-01-01T00:00:01Z</datestamp>"
    header = envelope.header("oai:a:<", 1, ["x", "y"], removed=False)
    assert header == f"<header>{inside}<setSpec>x</setSpec><setSpec>y</setSpec></header>\n"
    assert envelope.header("oai:a:<", 1, [], removed=True) == f'<header status="deleted">{inside}</header>\n'
    assert envelope.record("h", "<m/>") == "<record>h<metadata><m/></metadata></record>\n"
    assert envelope.record("h", "") == "<record>h</record>\n"


def test_a_token_has_an_end_unless_it_is_the_empty_one_of_the_last_page() -> None:
    assert envelope.resumption("t", 100, 230, 1_700_000_000) == (
        '<resumptionToken expirationDate="2023-11-14T22:13:20Z" completeListSize="230" cursor="100">t'
        "</resumptionToken>\n"
    )
    assert envelope.resumption("", 200, 230, 0) == (
        '<resumptionToken completeListSize="230" cursor="200"></resumptionToken>\n'
    )


@pytest.mark.parametrize(
    ("text", "content", "value"),
    [
        ("plain é", "plain é", '"plain é"'),
        ("a&b<c>", "a&amp;b&lt;c&gt;", '"a&amp;b&lt;c&gt;"'),
        ("a\rb\n", "a&#13;b\n", '"a&#13;b&#10;"'),
        ('a"b', 'a"b', "'a\"b'"),
        ("a\x00\ufffe\ud800b", "ab", '"ab"'),
    ],
)
def test_texts_from_outside_are_escaped(text: str, content: str, value: str) -> None:
    assert envelope.xml_text(text) == content
    assert envelope.xml_value(text) == value


def test_moments_have_four_digits_of_the_year() -> None:
    assert envelope.moment(-62_135_596_800) == "0001-01-01T00:00:00Z"
    assert envelope.moment(253_402_300_799) == "9999-12-31T23:59:59Z"
