"""The messages of both services."""

import dataclasses

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.protocol.messages import (
    MOST_ESCAPED_URL_BYTES,
    MOST_MESSAGE_BYTES,
    Acknowledgment,
    ConfirmationRequest,
    ExclusionRequest,
    InclusionRequest,
    UrlRequest,
    fit_into_message,
    is_key,
    read_request,
    split_hostport,
)
from ibi.protocol.query_string import read_query, write_query
from ibi.protocol.replies import (
    AcknowledgmentReceived,
    Confirmation,
    ExclusionStatus,
    InclusionStatus,
    Refusal,
    RequestError,
)
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState, Subject

INCLUSION = InclusionRequest(
    "mtc-m21.sid.inpe.br",
    parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39"),
    "150.163.34.239",
    "2014:11.09.02.16.15",
    "admin@archive.example",
    "1234567890",
)


@pytest.mark.proves("MSG-25", "MSG-05", "MSG-01")
def test_a_url_request_is_read_as_it_is_written() -> None:
    request = UrlRequest(
        ("172.16.44.200", "150.163.68.1"),
        parse_ibi("8JMKD3MGP8W/35MMLL8"),
        "/a b.pdf",
        VerbList.parse("GetLastEdition GetMetadata(oai_dc)"),
    )
    assert request.query() == (
        "clientinformation.ipaddress=172.16.44.200%20150.163.68.1&parsedibiurl.filepath=/a%20b.pdf"
        "&parsedibiurl.ibi=8JMKD3MGP8W/35MMLL8&parsedibiurl.verblist=GetLastEdition%20GetMetadata(oai_dc)"
        "&servicesubject=urlRequest"
    )
    assert read_request(request.query()) == request


@pytest.mark.proves("RES-03")
def test_a_url_request_has_no_place_for_language_or_required_state() -> None:
    assert UrlRequest._fields == ("client_addresses", "ibi", "file_path", "verbs")


@pytest.mark.proves("AMB-39", "SVC-13")
def test_a_file_path_is_read_with_or_without_its_slash() -> None:
    start = "servicesubject=urlRequest&clientinformation.ipaddress=1.2.3.4&parsedibiurl.ibi=LK47B6W/362SFKH"
    read = [read_request(f"{start}&parsedibiurl.filepath={path}") for path in ("a.bib", "/a.bib", "/", "")]
    assert [request.file_path for request in read if isinstance(request, UrlRequest)] == [
        "/a.bib",
        "/a.bib",
        "",
        "",
    ]


@pytest.mark.proves("MSG-27")
def test_an_acknowledgment_is_read_as_it_is_written() -> None:
    acknowledgment = Acknowledgment(
        ("150.163.2.175",), ContentType.METADATA, ItemState.ORIGINAL, "http://a.example/x?choice=oai_dc",
        "http://urlib.net/8JMKD3MGP8W/35MMLL8!:", "1426286454-36108967764060357",
        IBIForms.parse("rep sid.inpe.br/mtc-m18/2012/07.12.18.08.49"),
    )  # fmt: skip
    assert "url=http://a.example/x%3Fchoice%3Doai_dc" in acknowledgment.query()
    assert read_request(acknowledgment.query()) == acknowledgment


@pytest.mark.parametrize(
    ("count", "event", "start"),
    [(1, "", ""), (2, "", "acknowledgment.count=2&"), (1, "7", "acknowledgment.id=7&")],
)
def test_what_an_acknowledgment_may_have_is_written_only_if_it_says_something(
    count: int, event: str, start: str
) -> None:
    acknowledgment = Acknowledgment(
        ("1.2.3.4",), ContentType.DATA, ItemState.COPY, "u", "p", "1234567890", None, count, event
    )
    assert acknowledgment.query() == (
        f"{start}clientinformation.ipaddress=1.2.3.4&contenttype=Data&servicesubject=acknowledgment"
        "&state=Copy&url=u&url.persistent=p&urlkey=1234567890"
    )
    assert read_request(acknowledgment.query()) == acknowledgment


def test_a_message_that_quotes_short_urls_is_never_too_long_for_an_archive() -> None:
    """The longest names, addresses and keys there are, beside URLs that escaping makes three times as long."""
    rep, ibip = f"a.example/{'b' * 485}/2020/01.01.00.00", f"8JMKD3MGP8W/{'3' * 500}"
    url = "http://a.example/" + "=" * ((MOST_ESCAPED_URL_BYTES - 17) // 3 // 2 - 10)
    assert fit_into_message(url, url)
    assert not fit_into_message(url, url, "=" * 20)
    addresses = ("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",) * 8
    forms = IBIForms.parse(f"rep {rep} ibip {ibip}")
    key = f"{'1' * 127}-{'2' * 128}"
    message = Acknowledgment(
        addresses, ContentType.METADATA, ItemState.ORIGINAL, url, url, key, forms, 100_000, "9" * 20
    )
    question = UrlRequest(addresses, parse_ibi(ibip), url + url, VerbList(("GetTranslation(pt-BR)",) * 9))
    for query in (message.query(), question.query()):
        assert len(f"/{rep}?{query}") <= MOST_MESSAGE_BYTES
    assert isinstance(read_request(message.query()), Acknowledgment)


@pytest.mark.proves("AMB-50")
def test_an_acknowledgment_without_state_or_ibi_is_tolerated() -> None:
    acknowledgment = Acknowledgment(
        ("1.2.3.4",), ContentType.DATA, None, "http://a.example/x", "http://urlib.net/x", "1234567890"
    )
    assert read_request(acknowledgment.query()) == acknowledgment


@pytest.mark.proves("MSG-20", "MSG-22")
def test_requests_to_switch_are_read_as_they_are_written() -> None:
    exclusion = ExclusionRequest(*dataclasses.astuple(INCLUSION))
    for request in (INCLUSION, exclusion, ConfirmationRequest()):
        assert read_request(request.query()) == request
    assert read_request(exclusion.query()) != INCLUSION
    for end in ("2026-11-21T10:00:00Z", "never"):
        ending = dataclasses.replace(exclusion, end=end)
        assert read_request(ending.query()) == ending


def test_a_request_to_switch_has_its_eight_pairs_and_perhaps_its_end_in_order() -> None:
    exclusion = dataclasses.replace(ExclusionRequest(*dataclasses.astuple(INCLUSION)), end="never")
    assert exclusion.query() == (
        "archiveaddress=mtc-m21.sid.inpe.br&archiveadmemailaddress=admin@archive.example"
        "&archiveip=150.163.34.239&archiveplatformversion=2014:11.09.02.16.15&archiveprotocol=HTTP"
        "&archiveserviceibi=sid.inpe.br/mtc-m21/2012/06.05.15.34.39&exclusion.end=never"
        "&registrationkey=1234567890&servicesubject=exclusionRequest"
    )
    assert repr(exclusion) == (
        "ExclusionRequest('mtc-m21.sid.inpe.br', 'sid.inpe.br/mtc-m21/2012/06.05.15.34.39')"
    )


def test_a_key_never_shows_where_a_request_is_shown() -> None:
    assert "1234567890" not in repr(INCLUSION)


@pytest.mark.proves("AMB-32", "MSG-20")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("servicesubject", "somethingElse"),
        ("servicesubject", ""),
        ("archiveaddress", "user@a.example"),
        ("archiveaddress", "a.example/x"),
        ("archiveaddress", "a.example:0"),
        ("archiveaddress", "a.example:65536"),
        ("archiveaddress", "a%2eexample"),
        ("archiveserviceibi", "nothing"),
        ("archiveip", "300.1.1.1"),
        ("archiveprotocol", "USP"),
        ("archiveplatformversion", "a\r\nb"),
        ("archiveadmemailaddress", "nobody"),
        ("archiveadmemailaddress", "a@b\r\nBcc:c@d"),
        ("registrationkey", "123"),
    ],
)
def test_a_pair_out_of_its_domain_is_refused(name: str, value: str) -> None:
    pairs = {**dict(read_query(INCLUSION.query())), name: value}
    with pytest.raises(ParseError):
        read_request(write_query(pairs.items()))


def test_a_repeated_pair_is_refused() -> None:
    with pytest.raises(ParseError, match="twice"):
        read_request("servicesubject=urlRequest&servicesubject=urlRequest")


@pytest.mark.proves("REG-06", "MSG-23", "MSG-24", "MSG-28", "AMB-33")
def test_replies_are_exact() -> None:
    assert Confirmation().body() == b"confirmation yes"
    assert AcknowledgmentReceived().body() == b"notice {acknowledgment received}"
    assert InclusionStatus(confirmed=True).body() == b"status.archive included status.confirmation successful"
    assert (
        InclusionStatus(confirmed=False).body() == b"status.archive included status.confirmation unsuccessful"
    )
    assert ExclusionStatus().body() == b"status.archive excluded"
    assert Refusal().body() == b"status.archive refused"
    assert RequestError("bad {thing} é").body() == b"error {bad thing}"
    assert RequestError("!a~ \x7f\t!").body() == b"error {!a~ !}"
    assert (
        Refusal.read(Refusal(address=True).body())
        == Refusal.read(b"status.address refused")
        == Refusal(address=True)
    )
    assert Refusal.read(b"status.address {refused}") == Refusal.read(b"{") == Refusal()
    for confirmed in (True, False):
        assert InclusionStatus.read(InclusionStatus(confirmed=confirmed).body()).confirmed is confirmed


@pytest.mark.proves("REG-09")
def test_a_reply_that_says_anything_else_is_none() -> None:
    for body in (b"", b"confirmation no", b"confirmation yes x y", b"Confirmation yes", b"<html>"):
        with pytest.raises(ParseError):
            Confirmation.read(body)
    for body in (
        b"status.archive refused",
        b"status.archive included",
        b"status.archive included status.confirmation maybe",
    ):
        with pytest.raises(ParseError):
            InclusionStatus.read(body)
    with pytest.raises(ParseError):
        ExclusionStatus.read(b"status.archive included")
    with pytest.raises(ParseError):
        AcknowledgmentReceived.read(b"notice received")


def _is_known(subject: str) -> bool:
    """Whether a message with nothing but this subject is refused for what it lacks, if at all."""
    try:
        read_request(write_query([("servicesubject", subject)]))
    except ParseError as error:
        return str(error) != "no service knows this subject"
    return True


def test_each_subject_has_a_reader() -> None:
    assert not _is_known("x")
    assert [subject for subject in Subject if not _is_known(subject)] == []


@pytest.mark.proves("MSG-21", "AMB-57")
def test_keys_are_ten_digits_or_more_once_or_twice() -> None:
    assert is_key("1234567890")
    assert is_key("1234567890-1234567890")
    for text in ("123456789", "1234567890-", "1234567890\n", "１２３４５６７８９０", "1" * 300):
        assert not is_key(text)


@pytest.mark.proves("MSG-03")
def test_an_address_is_a_host_and_perhaps_a_port() -> None:
    assert split_hostport("mtc-m21.sid.inpe.br") == ("mtc-m21.sid.inpe.br", None)
    assert split_hostport("a.example:8080") == ("a.example", 8080)
    assert split_hostport("[2001:DB8::1]:80") == ("2001:db8::1", 80)
    for text in ("", ":80", "a b", "[x]", "a.example:", "http://a", "a@b", "[::1", "é.example"):
        with pytest.raises(ParseError):
            split_hostport(text)


def test_an_older_opaque_id_is_asked_for_unchanged() -> None:
    request = UrlRequest(("1.2.3.4",), parse_name("6RPa7umaZ/UaJFT"))
    assert "parsedibiurl.ibi=6RPa7umaZ/UaJFT&" in request.query()
    assert read_request(request.query()) == request
