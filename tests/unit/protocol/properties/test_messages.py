"""Every message, written and read back, and every reader of messages under bytes drawn at random."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.ibip import canonical_ip
from ibi.protocol.messages import (
    Acknowledgment,
    ConfirmationRequest,
    ExclusionRequest,
    InclusionRequest,
    Request,
    UrlRequest,
    is_key,
    read_request,
)
from ibi.protocol.query_string import read_query
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.replies import (
    AcknowledgmentReceived,
    Confirmation,
    ExclusionStatus,
    InclusionStatus,
    Refusal,
)
from ibi.protocol.url_list import UrlList, entry_pairs
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.oracles.attempts import attempt
from support.oracles.texts import BODIES, MANY, QUERIES, hostile, ibips, modifiers, repositories, spoiled

names = (repositories() | ibips()).map(parse_ibi)
forms = st.one_of(
    st.builds(IBIForms.of, names),
    st.builds(lambda rep, ibip: IBIForms.parse(f"rep {rep} ibip {ibip}"), repositories(), ibips()),
)
addresses = st.lists(
    st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str), min_size=1, max_size=3
).map(tuple)
plain_addresses = addresses.filter(lambda ips: not any(ip.startswith("::ffff:") for ip in ips))
keys = st.from_regex(r"[0-9]{10,20}(-[0-9]{10,20})?", fullmatch=True)
file_paths = st.sampled_from(["", "/reference.bib", "/a/b%20c.pdf", "/x+y!.pdf", "/Relat%f3rio%20Final.pdf"])
verbs = st.builds(
    lambda text, files: VerbList.of(Relation.from_modifier(text), file_list=files), modifiers(), st.booleans()
)
web = st.sampled_from(
    [
        "http://a.example/x",
        "http://a.example/x?choice=oai_dc&a=b+c",
        "http://a.example/Relat%f3rio%20Final.pdf",
        "https://[::1]:8/#",
    ]
)
url_requests = st.builds(UrlRequest, plain_addresses, names, file_paths, verbs)
acknowledgments = st.builds(
    Acknowledgment,
    plain_addresses,
    st.sampled_from(ContentType),
    st.sampled_from([ItemState.ORIGINAL, ItemState.COPY]),
    web,
    st.sampled_from(
        ["http://urlib.net/LK47B6W/362SFKH+(pt-BR)?x=%2B", "http://urlib.net:80/LK47B6W/362SFKH!:(oai_dc)"]
    ),
    keys,
    st.none() | forms,
)
hosts = st.sampled_from(
    ["mtc-m21.sid.inpe.br", "archive.example:8080", "150.163.34.239", "[2001:db8::1]:80", "localhost"]
)
switches = st.builds(
    lambda kind, *values: kind(*values),
    st.sampled_from([InclusionRequest, ExclusionRequest]),
    hosts,
    names,
    plain_addresses.map(lambda ips: ips[0]),
    st.sampled_from(["2014:11.09.02.16.15", "0.1.0"]),
    st.sampled_from(["admin@archive.example", "a.b+c@archive.example"]),
    keys,
)


@pytest.mark.proves("MSG-04", "MSG-05", "MSG-06", "MSG-07", "MSG-20", "MSG-22", "MSG-25", "MSG-27")
@given(message=url_requests | acknowledgments | switches | st.just(ConfirmationRequest()))
@MANY
def test_every_request_is_read_as_it_was_written(message: Request) -> None:
    query = message.query()
    assert read_request(query) == message
    assert query.isascii()
    assert not set(query) & set(' "<>\\^`{|}#\r\n\t')
    sent = [name for name, _ in read_query(query)]
    assert sent == sorted(set(sent))
    shuffled = "&".join(sorted(query.split("&"), key=lambda pair: pair[::-1]))
    assert read_request(shuffled) == message


def is_raw(text: str) -> bool:
    """Whether each character stands for a byte, as in everything that a server hands over."""
    return all(ord(character) < 256 for character in text)


@pytest.mark.proves("MSG-05", "AMB-32")
@given(query=hostile(QUERIES).filter(is_raw) | st.text(st.characters(max_codepoint=255), max_size=60))
@example(query="servicesubject=urlRequest")
@example(query="servicesubject=urlRequest&servicesubject=urlRequest")
@example(query="servicesubject")
@example(query="&&&")
@MANY
def test_any_query_is_a_request_or_the_one_parse_error(query: str) -> None:
    message = attempt(read_request, query)
    if isinstance(message, ParseError):
        assert str(message)
        return
    assert read_request(message.query()) == message


@pytest.mark.proves("MSG-25", "AMB-08")
@given(
    st.ip_addresses(v=4).map(str)
    | st.lists(
        st.sampled_from(["0", "00", "07", "9", "99", "100", "199", "249", "255", "256", "300", ""]),
        max_size=5,
    )
    .map(".".join)
    .filter(bool)
)
@example("127.0.0.1.")
@example("192.0.2.7%1")
@MANY
def test_an_address_in_a_request_has_the_spelling_that_every_address_has(text: str) -> None:
    query = f"clientinformation.ipaddress={text}&parsedibiurl.ibi=a.b/c/2020/01.01.00.00&servicesubject=urlRequest"
    request, expected = attempt(read_request, query), attempt(canonical_ip, text)
    if isinstance(expected, ParseError):
        assert isinstance(request, ParseError)
    else:
        assert isinstance(request, UrlRequest)
        assert request.client_addresses == (expected,)


@pytest.mark.proves("MSG-05", "MSG-20", "MSG-25", "MSG-27", "AMB-32")
@given(message=url_requests | acknowledgments | switches, data=st.data())
@MANY
def test_a_request_without_one_of_its_mandatory_pairs_is_refused(
    message: Request, data: st.DataObject
) -> None:
    elements = message.query().split("&")
    optional = ("ibi=", "state=", "parsedibiurl.filepath=", "parsedibiurl.verblist=")
    gone = data.draw(st.sampled_from([element for element in elements if not element.startswith(optional)]))
    with pytest.raises(ParseError):
        read_request("&".join(element for element in elements if element != gone))
    with pytest.raises(ParseError):
        read_request("&".join([*elements, gone]))
    name = gone.partition("=")[0]
    for emptied in (f"{name}=", f"{name}=%20"):
        with pytest.raises(ParseError):
            read_request("&".join([*(element for element in elements if element != gone), emptied]))


ASKING = "servicesubject=urlRequest&clientinformation.ipaddress=192.0.2.1&parsedibiurl.ibi=LK47B6W/362SFKH"
ACKNOWLEDGING = (
    "servicesubject=acknowledgment&clientinformation.ipaddress=192.0.2.1&contenttype=Data&state=Copy"
    "&url=http://a.example/&url.persistent=http://urlib.net/LK47B6W/362SFKH&urlkey=1234567890"
)
BAD_VALUES = [
    ("clientinformation.ipaddress", "150.163.2.300"),
    ("clientinformation.ipaddress", "localhost"),
    ("parsedibiurl.ibi", "nothing"),
    ("parsedibiurl.filepath", "//x"),
    ("parsedibiurl.filepath", "/a%0d%0ab"),
    ("parsedibiurl.verblist", "getmetadata"),
]
BAD_ACKNOWLEDGMENTS = [
    ("state", "Deleted"),
    ("state", "original"),
    ("contenttype", "text/html"),
    ("urlkey", "123"),
    ("ibi", "rep%20nothing"),
    ("ibi", "x"),
]
BAD_SWITCHES = [
    ("archiveaddress", "user@archive.example"),
    ("archiveaddress", "archive.example:99999"),
    ("archiveaddress", "archive.example/x"),
    ("archiveaddress", "archive.example%0d%0a"),
    ("archiveserviceibi", "nothing"),
    ("archiveip", "archive.example"),
    ("archiveprotocol", "USP"),
    ("archiveadmemailaddress", "nobody"),
    ("archiveadmemailaddress", "a@b.example%0d%0aBcc:x@y.example"),
    ("archiveplatformversion", "a%0ab"),
    ("registrationkey", "abc"),
]


@pytest.mark.proves("MSG-03", "MSG-20", "MSG-21", "MSG-25", "MSG-27", "AMB-32")
@pytest.mark.parametrize(
    ("whole", "name", "value"),
    [
        *((ASKING, *bad) for bad in BAD_VALUES),
        *((ACKNOWLEDGING, *bad) for bad in BAD_ACKNOWLEDGMENTS),
        *((QUERIES[1], *bad) for bad in BAD_SWITCHES),
    ],
)
def test_a_value_outside_its_domain_is_refused(whole: str, name: str, value: str) -> None:
    read_request(whole)
    others = [pair for pair in whole.split("&") if not pair.startswith(f"{name}=")]
    with pytest.raises(ParseError):
        read_request("&".join([*others, f"{name}={value}"]))


Reply = Confirmation | AcknowledgmentReceived | InclusionStatus | ExclusionStatus
REPLIES: list[Reply] = [
    Confirmation(),
    AcknowledgmentReceived(),
    InclusionStatus(confirmed=True),
    InclusionStatus(confirmed=False),
    ExclusionStatus(),
]


@pytest.mark.proves("MSG-10", "MSG-23", "MSG-28", "REG-06", "REG-09", "AMB-33")
@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.body().decode())
@given(
    body=hostile(BODIES).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | spoiled([reply.body().decode() for reply in REPLIES]).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
    | st.sampled_from([*(other.body() for other in REPLIES), Refusal().body()])
)
@example(body=b"status.archive included status.confirmation maybe")
@example(body=b"status.archive included status.confirmation {}")
@example(body=b"status.archive included status.confirmation {successful unsuccessful}")
@example(body=b"confirmation yes confirmation yes")
@example(body=b"confirmation {yes}")
@MANY
def test_a_reply_is_believed_only_if_it_says_exactly_that(reply: Reply, body: bytes) -> None:
    read: Reply | ParseError = attempt(type(reply).read, body)
    if isinstance(read, ParseError):
        assert str(read)
        assert body != reply.body()
    else:
        assert body.split() == read.body().split()


@pytest.mark.proves("SVC-03", "SVC-04", "SVC-05", "MSG-26", "MSG-21", "ARC-09")
@given(body=hostile(BODIES).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(body=b"url.translation(PT) http://a.example/")
@example(body=b"url.translation(pt) http://a.example/ url.translation(PT) http://b.example/")
@example(body=b"url {a b}")
@example(body=b"ibi {rep x ibip}")
@example(body=b"ibi {}")
@example(body=b"ibi x")
@example(body=b"state {Original Copy} urlkey {1234567890}")
@example(body=b"ibi.nextedition {rep x ibip LK47B6W/362SFKH}")
@MANY
def test_every_value_of_an_answer_is_of_its_domain_or_absent(body: bytes) -> None:
    answer = attempt(UrlList.read, body)
    if isinstance(answer, ParseError):
        assert str(answer)
        return
    assert bool(answer) is bool(answer.pairs)
    assert UrlList.read(answer.body()).relations is not None
    for known in (answer.archive_service, answer.platform_software, answer.forms, answer.next_edition):
        assert known is None or isinstance(known, IBIForms)
    assert answer.state is None or answer.state in ItemState
    assert answer.url_key is None or is_key(answer.url_key)
    relations = list(answer.relations())
    assert len(relations) == len(set(relations))
    for relation in relations:
        entry = answer.entry(relation)
        assert entry.url is not None, "a relation with a URL has one"
        assert entry.forms is None or isinstance(entry.forms, IBIForms)
        assert entry.state is None or entry.state in ItemState
        assert entry.content_type is None or entry.content_type in ContentType


@pytest.mark.proves("SVC-03", "SVC-05", "MSG-15")
@given(
    relation=modifiers().map(Relation.from_modifier),
    forms_of_it=st.none() | forms,
    url=st.none() | web,
    state=st.sampled_from(ItemState),
    content=st.sampled_from(ContentType),
)
@MANY
def test_an_entry_is_read_as_it_was_written(
    relation: Relation, forms_of_it: IBIForms | None, url: str | None, state: ItemState, content: ContentType
) -> None:
    written = entry_pairs(relation, UrlList({}).entry()._replace(
        url=url, forms=forms_of_it, state=state, content_type=content, timestamp="2014-01-02T17:23:57Z"
    ))  # fmt: skip
    answer = UrlList.read(UrlList(written).body())
    entry = answer.entry(relation)
    assert entry.forms == forms_of_it
    assert entry.url == url
    if url is None:  # the three others stand only beside a URL
        assert (entry.state, entry.content_type, entry.timestamp) == (None, None, None)
    else:
        assert (entry.state, entry.content_type, entry.timestamp) == (state, content, "2014-01-02T17:23:57Z")
        assert list(answer.relations()) == [relation]
    assert relation == ITEM or answer.state is None
