"""Persistent URLs against the printed grammar and under texts drawn at random."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.forms import parse_name
from ibi.identifier.ibip import IBIp
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.persistent_url import PersistentURL
from support.oracles.attempts import attempt
from support.oracles.grammars import URLS
from support.oracles.texts import MANY, ibips, modifiers, repositories, spoiled
from support.oracles.texts import URLS as PRINTED
from support.oracles.texts import urls as hostile_urls

HOST = "http://urlib.net/"
paths = st.sampled_from(
    ["", "/reference.bib", "/a/b%20c.pdf", "/x+y!.pdf", "/2020/01.02.03.04", "/a//b", "/", "/:"]
)
pairs = st.sampled_from(
    [
        "x=1",
        "q=a%26b",
        "lang=pt",
        "x=",
        "ibiurl.foo=1",
        "ibiurl.requireditemstatus=Original",
        "y=a;z",
        "linktype=relative",
    ]
)
queries = st.lists(
    pairs, max_size=4, unique_by=lambda pair: pair if pair.startswith("ibiurl.req") else object()
).map("&".join)


@st.composite
def persistent_urls(draw: st.DrawFn) -> tuple[str, str, str, str, str]:
    """A persistent URL that the printed grammar derives, and the parts it was made of."""
    ibi, modifier = draw(repositories() | ibips()), draw(modifiers())
    path, query = draw(paths), draw(queries)
    return HOST + ibi + modifier + path + (f"?{query}" if query else ""), ibi, modifier, path, query


@pytest.mark.proves(
    "URL-01",
    "URL-02",
    "URL-03",
    "URL-09",
    "URL-14",
    "URL-15",
    "URL-19",
    "AMB-36",
    "AMB-38",
    "AMB-48",
    "SVC-13",
)
@given(made=persistent_urls())
@MANY
def test_what_the_grammar_derives_is_taken_apart_as_it_was_put_together(
    made: tuple[str, str, str, str, str],
) -> None:
    text, ibi, modifier, path, query = made
    if (
        re.fullmatch("[^./]+/[^./]+(/[0-9]{4,}/.*)", f"{ibi}{modifier}{path}")
        or "/rep/" in text
        or "/ibi/" in text
    ):
        return  # both forms fit, or a wrapper: the tests below
    assert URLS.matches("persistent-url", text)
    url = PersistentURL.from_text(text)
    assert str(url.ibi) == ibi
    assert url.modifier == url.relation.modifier == modifier
    assert url.verbs.verbs == url.relation.verbs
    assert url.file_path == ("" if path == "/" else path)
    wanted = [pair for pair in query.split("&") if pair]
    assert url.foreign_query == "&".join(pair for pair in wanted if not pair.startswith("ibiurl."))
    assert list(url.ignored) == [pair for pair in wanted if pair == "ibiurl.foo=1"]
    assert url.original_required is ("ibiurl.requireditemstatus=Original" in wanted)
    assert url.wrappers == ()
    assert str(url) == text.removeprefix("http://urlib.net")


@pytest.mark.proves(
    "URL-01", "URL-03", "URL-21", "AMB-37", "AMB-40", "AMB-43", "AMB-48", "WILD-01", "WILD-03"
)
@given(text=spoiled([url for url in PRINTED if len(url) < 90]) | persistent_urls().map(lambda made: made[0]))
@MANY
def test_what_is_read_beyond_the_grammar_is_one_of_the_known_tolerances(text: str) -> None:
    """Each text that parses is derivable once every tolerance that the requirements name is taken back."""
    try:
        url = PersistentURL.from_text(text)
    except ParseError:
        return
    ibi, modifier = str(url.ibi), url.relation.modifier
    if not isinstance(url.ibi, UniformRepositoryName | IBIp):
        return  # the older opaque ids stand in no grammar of the standard
    plain = HOST + ibi + re.sub(r":\([^)]*\)", ":(oai_dc)", modifier if url.modifier else "")
    if re.fullmatch("[!-~]*", url.file_path) and re.fullmatch(
        '(%[0-9A-F]{2}|[^%"<>\\[\\]^`{|}\\\\])*', url.file_path
    ):
        plain += url.file_path
    assert URLS.matches("persistent-url", plain)
    assert url.file_path == "" or re.fullmatch('/([!-"$->@-~][!-"$->@-~]*)?', url.file_path)
    assert not url.file_path.startswith("//")
    assert re.fullmatch("[!-~]*", url.foreign_query), "what is appended to a redirect is printable ASCII"
    assert url.original_required is ("ibiurl.requireditemstatus=Original" in naive_decoded(text))


def naive_decoded(text: str) -> str:
    return re.sub("%([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


@pytest.mark.proves("URL-01", "URL-03", "WILD-01")
@given(
    scheme=st.sampled_from(["ibi:", "IBI:", "Ibi%3a", "ibi%3A"]),
    text=persistent_urls().map(lambda made: made[0].removeprefix(HOST))
    | spoiled(["LK47B6W/362SFKH!+(pt)/a"]),
)
@MANY
def test_the_compact_form_means_what_stands_behind_it_and_nothing_that_was_read_before(
    scheme: str, text: str
) -> None:
    """Every URL that began so was refused, since what is read now names `scheme` as a wrapper."""
    bare, compact = (
        attempt(PersistentURL.from_text, f"/{text}"),
        attempt(PersistentURL.from_text, f"/{scheme}{text}"),
    )
    if isinstance(bare, ParseError):
        assert isinstance(compact, ParseError)
    elif any(each.startswith("/") for each in bare.wrappers):
        assert isinstance(compact, ParseError)  # one wrapper is taken off, not several
    else:
        assert isinstance(compact, PersistentURL)
        assert compact.wrappers == (f"/{scheme}", *bare.wrappers)
        assert compact[:9] == bare[:9]


@pytest.mark.proves("URL-01", "URL-03", "WILD-01", "WILD-03", "AMB-48")
@given(text=hostile_urls)
@example(text="http://urlib.net")
@example(text="")
@example(text="/")
@example(text="?")
@example(text="??")
@example(text="//")
@example(text="/ibi/")
@example(text="/rep/LK47B6W/362SFKH")
@example(text="/ibi/rep/LK47B6W/362SFKH.)")
@example(text="LK47B6W/362SFKH?ibiurl.verblist=GetMetadata&ibiurl.verblist=GetMetadata")
@example(text="LK47B6W/362SFKH?ibiurl.verblist=%ff")
@example(text="LK47B6W/362SFKH%00")
@example(text="LK47B6W/362SFKH/a b")
@MANY
def test_any_text_gives_a_persistent_url_or_the_one_parse_error(text: str) -> None:
    url = attempt(PersistentURL.from_text, text)
    if isinstance(url, ParseError):
        assert str(url)
        assert 0 <= url.start <= url.end <= len(url.text)
        assert url.caret().count("\n") == 1
        return
    again = PersistentURL.from_text(str(url))
    assert again == url
    assert parse_name(str(url.ibi)) == url.ibi
    assert isinstance(url.file_list, bool)


@pytest.mark.proves("URL-01", "URL-03")
@given(
    path=st.text(st.characters(max_codepoint=255), max_size=60),
    query=st.text(st.characters(max_codepoint=255), max_size=60),
)
@MANY
def test_any_raw_request_gives_a_persistent_url_or_the_one_parse_error(path: str, query: str) -> None:
    for raw_path in (
        path,
        f"/{path}",
        f"/LK47B6W/362SFKH{path}",
        f"/sid.inpe.br/mtc-m18/2012/07.12.18.08{path}",
    ):
        url = attempt(PersistentURL.parse, raw_path, query)
        if isinstance(url, ParseError):
            assert str(url)
            continue
        assert raw_path.lstrip("/").startswith((str(url.ibi), "ibi/", "rep/")) or "%" in raw_path
        assert re.fullmatch("[!-~]*", url.file_path)


@pytest.mark.proves("URL-03", "AMB-37")
@given(made=persistent_urls())
@MANY
def test_modifiers_may_come_escaped_and_paths_stay_raw(made: tuple[str, str, str, str, str]) -> None:
    text, ibi, modifier, path, _ = made
    escaped = "".join(f"%{ord(sign):02X}" if sign in "!():+" else sign for sign in modifier)
    if "@" in ibi:
        ibi = ibi.replace("@", "%40")
    plain, url = (
        PersistentURL.from_text(text.partition("?")[0]),
        PersistentURL.from_text(HOST + ibi + escaped + path),
    )
    assert (url.ibi, url.relation, url.file_path) == (plain.ibi, plain.relation, plain.file_path)


@pytest.mark.proves("AMB-38")
@given(label=ibips(), rest=st.from_regex(r"[0-9]{4}/[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.[0-9]{2}", fullmatch=True))
@MANY
def test_where_both_forms_fit_the_ip_address_decides(label: str, rest: str) -> None:
    """Strict IBIp with a path, or a repository name of a one-word subdomain: the IBIp only if it spells an address."""
    text = f"{label}/{rest}"
    try:
        repository = UniformRepositoryName.parse(text)
    except ParseError:
        repository = None
    url = PersistentURL.parse(f"/{text}")
    if repository is not None and IBIp.parse(label).ip is None:
        assert url.ibi == repository
        assert url.file_path == ""
    else:
        assert str(url.ibi) == label
        assert url.file_path == f"/{rest}"


@pytest.mark.proves("URL-21", "AMB-40")
@given(ibi=repositories() | ibips())
@MANY
def test_the_legacy_ending_means_metadata(ibi: str) -> None:
    url = PersistentURL.parse(f"/{ibi}", "?")
    assert url.relation == PersistentURL.parse(f"/{ibi}:").relation
    assert url.foreign_query == ""
    assert str(url) == f"/{ibi}??"


@pytest.mark.proves("AMB-48", "URL-14")
@pytest.mark.parametrize(
    "query",
    [
        "ibiurl.requireditemstatus=Copy",
        "ibiurl.requireditemstatus=",
        "ibiurl.requireditemstatus",
        "ibiurl.requireditemstatus=original",
        "ibiurl.requireditemstatus=Original&ibiurl.requireditemstatus=Original",
        "ibiurl.verblist=GetMetadata&ibiurl.verblist=GetMetadata",
        "ibiurl.verblist=GetMetadata+GetLastEdition",
        "ibiurl.verblist=getmetadata",
        "ibiurl.verblist=GetMetadata()",
    ],
)
def test_a_query_that_would_betray_the_request_is_refused(query: str) -> None:
    with pytest.raises(ParseError):
        PersistentURL.parse("/LK47B6W/362SFKH", query)


@pytest.mark.proves("URL-01", "AMB-48")
@pytest.mark.parametrize("character", ["\r", "\n", "\x00", " ", "\x7f", "\xe9", "\u2028"])
def test_nothing_that_could_split_a_header_gets_into_the_items_own_query(character: str) -> None:
    try:
        url = PersistentURL.parse("/LK47B6W/362SFKH", f"x=a{character}b")
    except ParseError:
        return
    assert re.fullmatch("[!-~]*", url.foreign_query)
    assert character not in url.foreign_query
