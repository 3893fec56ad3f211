"""Persistent URLs."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.persistent_url import PersistentURL

IBIP = "LK47B6W/362SFKH"
NO_DATE = "the date is month.day.hour.minute, two digits each, then perhaps .second"
NO_DIGIT = "the characters 0, 1, I, O, V, Y and Z do not occur in an IBIp"


@pytest.mark.proves("URL-01", "URL-02", "URL-03", "URL-04", "URL-19")
def test_everything_at_once() -> None:
    url = PersistentURL.parse(f"/{IBIP}!+(pt):(oai_dc)+(en)/a/b%20c.pdf", "x=1&ibiurl.verblist=GetFileList&y")
    assert str(url.ibi) == IBIP
    assert url.modifier == "!+(pt):(oai_dc)+(en)"
    assert url.relation.qualifier == ".lastedition.translation(pt).metadata(oai_dc).translation(en)"
    assert (url.file_path, url.file_list, url.foreign_query) == ("/a/b%20c.pdf", True, "x=1&y")
    assert str(url) == f"/{IBIP}!+(pt):(oai_dc)+(en)/a/b%20c.pdf?x=1&ibiurl.verblist=GetFileList&y"


@pytest.mark.proves("AMB-38")
def test_a_name_that_could_be_both_is_an_ibip_only_if_its_address_exists() -> None:
    assert isinstance(PersistentURL.parse("/mx/face/2020/01.02.03.04").ibi, UniformRepositoryName)
    opaque = PersistentURL.parse(f"/{IBIP}/2020/01.02.03.04")
    assert isinstance(opaque.ibi, IBIp)
    assert opaque.file_path == "/2020/01.02.03.04"


@pytest.mark.proves("AMB-37")
def test_escaped_modifiers_are_read_and_the_path_stays_raw() -> None:
    url = PersistentURL.parse(f"/{IBIP}%21%3A%28oai_dc%29/x%21.pdf")
    assert (url.modifier, url.file_path) == ("!:(oai_dc)", "/x%21.pdf")
    assert (
        str(PersistentURL.parse("/sid.inpe.br/mtc-m18%4080/2009/02.16.17.46").ibi)
        == "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"
    )


@pytest.mark.proves("URL-21", "AMB-40")
def test_two_question_marks_once_asked_for_the_metadata() -> None:
    assert PersistentURL.from_text(f"http://urlib.net/{IBIP}??").relation.qualifier == ".metadata"


@pytest.mark.proves("WILD-01")
def test_production_wrappers_and_what_a_sentence_leaves_behind_are_taken_off() -> None:
    for path, wrappers in (
        (f"/ibi/{IBIP}", ("/ibi/",)),
        (f"/rep/{IBIP})**", ("/rep/", ")**")),
        (f"/{IBIP}.", (".",)),
        (f"/ibi:{IBIP}", ("/ibi:",)),
        (f"/IBI%3a{IBIP}).", ("/IBI%3a", ").")),
    ):
        url = PersistentURL.parse(path)
        assert (str(url.ibi), url.wrappers) == (IBIP, wrappers)
    assert PersistentURL.parse(f"/{IBIP}+(pt)).").modifier == "+(pt)"


def test_as_many_characters_as_a_sentence_leaves_behind_are_taken_off_and_no_more() -> None:
    assert PersistentURL.parse(f"/{IBIP}{')' * 8}").wrappers == ("))))))))",)
    with pytest.raises(ParseError):
        PersistentURL.parse(f"/{IBIP}{')' * 9}")


@pytest.mark.parametrize(
    ("path", "sentence", "fault"),
    [
        ("/8JMKD3MGP0W/34PGRBS", NO_DIGIT, "0"),
        ("/8JMKD3MGP0W/34PGRBS!:", NO_DIGIT, "0"),
        ("/sid.inpe.br/m/2009/02.16.17/a/b", NO_DATE, "02.16.17"),
        ("/sid.inpe.br/m/2009/02.16.17!:/a/b", NO_DATE, "02.16.17"),
        ("/a/b/c/d/e", "the year has at least four digits", "c"),
    ],
)
def test_a_fault_in_the_name_is_told_as_of_the_name_alone(path: str, sentence: str, fault: str) -> None:
    with pytest.raises(ParseError) as caught:
        PersistentURL.parse(path)
    assert caught.value.text[caught.value.start : caught.value.end] == fault
    assert str(caught.value) == sentence


@pytest.mark.proves("URL-14", "AMB-37", "AMB-48")
def test_the_only_state_that_can_be_required_is_original() -> None:
    assert PersistentURL.parse(f"/{IBIP}", "ibiurl.requireditemstatus=Original").original_required
    for query in (
        "ibiurl.requireditemstatus=Copy",
        "ibiurl.requireditemstatus=",
        "ibiurl.requireditemstatus=Original=",  # cut at its first equals sign: another value
        "ibiurl.verblist=&ibiurl.verblist=",
    ):
        with pytest.raises(ParseError):
            PersistentURL.parse(f"/{IBIP}", query)


@pytest.mark.proves("URL-15", "AMB-36", "WILD-03")
def test_other_parameters_of_the_system_are_passed_over_and_the_items_own_stay_raw() -> None:
    url = PersistentURL.parse(f"/{IBIP}", "q=a%26b&ibiurl.language=pt&lang=pt&z=%7e")
    assert url.foreign_query == "q=a%26b&lang=pt&z=%7e"
    assert url.ignored == ("ibiurl.language=pt",)


@pytest.mark.proves("URL-16")
def test_the_parameters_of_the_system_are_read_without_their_escapes() -> None:
    query = (
        "ibiurl.requireditemstatus=Origin%61l&ibiurl%2Everblist=GetLastEdition%20GetMetadata%28oai%5Fdc%29"
    )
    url = PersistentURL.parse(f"/{IBIP}", query)
    assert url.relation.qualifier == ".lastedition.metadata(oai_dc)"
    assert (url.original_required, url.foreign_query, url.ignored) == (True, "", ())
    plus = PersistentURL.parse(f"/{IBIP}", "ibiurl.verblist=GetLastEdition%2BGetMetadata")
    assert plus.relation.qualifier == ".lastedition.metadata"


def test_inflections_are_exact() -> None:
    assert PersistentURL.parse(f"/{IBIP}", "info").inflection == "info"
    assert PersistentURL.parse(f"/{IBIP}", "json&x=1").inflection is None


@pytest.mark.proves("SVC-13", "AMB-39")
def test_a_path_of_one_slash_is_no_path() -> None:
    assert PersistentURL.parse(f"/{IBIP}/").file_path == ""


@pytest.mark.proves("WILD-02")
def test_an_older_opaque_id_keeps_its_case() -> None:
    url = PersistentURL.parse("/83LX3pFwXQZeBBx/BbsHa+(en)/doc/a.pdf")
    assert isinstance(url.ibi, LegacyId)
    assert (str(url.ibi), url.modifier, url.file_path) == ("83LX3pFwXQZeBBx/BbsHa", "+(en)", "/doc/a.pdf")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/nothing",
        f"/{IBIP}:!",
        f"/{IBIP}-RPQ",
        f"/{IBIP}//x",
        f"/{IBIP}/a b",
        f"/{IBIP}/\xe9",
        "/ibi/",
        "/rep/rep/x",
        f"/x/{IBIP}",
        "/" + "a" * 9000,
        f"/{IBIP}!!",
    ],
)
def test_what_is_no_persistent_url_is_refused(path: str) -> None:
    with pytest.raises(ParseError):
        PersistentURL.parse(path)


def test_the_fault_is_pointed_at_within_the_path() -> None:
    with pytest.raises(ParseError) as fault:
        PersistentURL.parse("/8JMKD3MGP0W/34PGRBS")
    assert fault.value.text[fault.value.start : fault.value.end] == "0"
    assert fault.value.text == "/8JMKD3MGP0W/34PGRBS"


@pytest.mark.proves("AMB-49")
def test_the_authority_of_a_text_is_not_looked_at() -> None:
    for text in (f"http://urlib.net:80/{IBIP}", f"HTTPS://x.example/{IBIP}#part", IBIP, f"/{IBIP}"):
        assert str(PersistentURL.from_text(text).ibi) == IBIP
    for nothing in ("http://urlib.net", "https://urlib.net/", "http:///", ""):
        with pytest.raises(ParseError) as refused:
            PersistentURL.from_text(nothing)
        assert refused.value.text == "/"
    query = PersistentURL.from_text(f"http://urlib.net/{IBIP}/a?b=http://c.example/d#e?f")
    assert (query.file_path, query.foreign_query) == ("/a", "b=http://c.example/d")


@pytest.mark.proves("URL-19", "SVC-13")
@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/..", ".."), ("/a/../b", ".."), ("/a/./b", "."), ("/a/.", "."), ("/%2e%2E/b", "%2e%2E"), ("/.%2e", ".%2e"),
        ("/a%2f..%2Fb", ".."), ("/a\\b", "\\"), ("/a%5Cb", "%5C"), ("/a%00", "%00"),
        ("/a%0d%0ab", "%0d"), ("/%0A", "%0A"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrapper", ["", "/ibi"])
def test_no_part_of_a_path_climbs_or_ends_a_line(path: str, fault: str, wrapper: str) -> None:
    with pytest.raises(ParseError, match="a part of a path") as caught:
        PersistentURL.parse(f"{wrapper}/{IBIP}{path}")
    assert caught.value.text[caught.value.start : caught.value.end] == fault


@pytest.mark.proves("URL-19")
@pytest.mark.parametrize(
    "path", ["/...", "/.a", "/a..", "/a../b", "/..a/b", "/%2e%2e%2e", "/%252e%252e", "/a%2fb", "/%5b"]
)
def test_other_parts_with_dots_are_names_of_files(path: str) -> None:
    assert PersistentURL.parse(f"/{IBIP}{path}").file_path == path
