"""Relations, verb lists and languages under texts drawn at random, and every short parser of the protocol."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.protocol.language import LanguagePreference, canonical_language
from ibi.protocol.messages import is_key, split_hostport
from ibi.protocol.query_string import escape, read_query, unescape
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.verb_list import VerbList
from support.oracles.attempts import accepts, attempt
from support.oracles.grammars import RELATIONS
from support.oracles.texts import (
    MANY,
    QUERIES,
    any_text,
    languages,
    modifiers,
    spoiled,
)
from support.printed_tables import is_printed_modifier, is_printed_pair_list

if TYPE_CHECKING:
    from collections.abc import Callable


steps = st.lists(
    st.sampled_from(["!", "+", ":", ":(oai_dc)", "+(pt)", "+(pt-BR)", "+(en)", ":(BibINPE)", "+()", ":()"]),
    max_size=5,
).map("".join)


@pytest.mark.proves("SVC-06", "URL-05", "URL-07", "URL-10", "AMB-42", "AMB-44", "WILD-03")
@pytest.mark.parametrize(
    "parse",
    [
        Relation.from_modifier,
        Relation.from_qualifier,
        lambda text: Relation.from_verbs(text.split(" ")),
        lambda text: VerbList.parse(text).relation,
        canonical_language,
        LanguagePreference.parse,
        is_key,
        is_printed_modifier,
        is_printed_pair_list,
        split_hostport,
        read_query,
        unescape,
        escape,
    ],
    ids=[
        "modifier", "qualifier", "verbs", "verb list", "language", "preference", "key", "printed modifier",
        "printed pair list", "address", "query", "unescape", "escape",
    ],
)  # fmt: skip
@given(
    text=any_text
    | steps
    | spoiled(
        [
            ".lastedition.translation(pt-BR).metadata(oai_dc)",
            "GetLastEdition GetMetadata(oai_dc)",
            "pt-BR",
            "[::1]:80",
        ]
    )
    | spoiled(QUERIES)
    | spoiled(["1234567890-1234567890", "pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3", "archive.example.org:8080"])
)
@MANY
def test_any_text_gives_a_value_or_the_one_parse_error(parse: Callable[[str], object], text: str) -> None:
    read = attempt(parse, text)
    if isinstance(read, ParseError):
        assert str(read)
        assert read.caret().count("\n") == 1


@pytest.mark.proves("URL-06", "SVC-06", "URL-05")
def test_exactly_fourteen_compositions_and_the_item_itself_are_relations() -> None:
    bare = {
        text
        for length in range(6)
        for punctuation in product("!+:", repeat=length)
        if accepts(Relation.from_modifier, text := "".join(punctuation))
    }
    assert bare == {"", *": :+ ! !+ !: !+: !:+ !+:+ + +! +: +!: +:+ +!:+".split()}


@pytest.mark.proves("URL-01", "URL-05", "URL-06", "SVC-05", "SVC-06")
@given(text=modifiers())
@MANY
def test_a_relation_has_three_spellings_of_one_value(text: str) -> None:
    relation = Relation.from_modifier(text)
    assert relation.modifier == text
    assert Relation.from_qualifier(relation.qualifier) == relation
    assert Relation.from_verbs(relation.verbs) == relation
    assert VerbList(relation.verbs).relation == relation
    assert VerbList.parse(" ".join(relation.verbs)) == VerbList.parse("+".join(relation.verbs))
    assert RELATIONS.matches("mdf", text)
    assert RELATIONS.matches("relation", relation.qualifier)
    assert RELATIONS.matches("verb-list", "+".join(relation.verbs))
    assert is_printed_modifier(text)


@pytest.mark.proves("URL-01", "SVC-06", "AMB-43")
@given(text=steps | spoiled(["!+(pt-BR):(oai_dc)+(en)", "+(PT-br)!", ":(dc)"]))
@MANY
def test_modifiers_are_called_printed_exactly_where_the_grammar_derives_them(text: str) -> None:
    derived = RELATIONS.matches("mdf", text)
    assert is_printed_modifier(text) == derived
    if derived:
        assert Relation.from_modifier(text).modifier == text


@pytest.mark.proves("AMB-43", "AMB-44", "WILD-03")
@given(text=steps | any_text | spoiled(["!+(PT-br):(BibINPE)+(en)"]))
@MANY
def test_what_is_read_with_tolerance_is_written_strictly(text: str) -> None:
    try:
        relation = Relation.from_modifier(text)
    except ParseError:
        return
    assert Relation.from_modifier(relation.modifier) == relation
    assert Relation.from_qualifier(relation.qualifier) == relation
    for verb in relation.verbs:
        assert VerbList.parse(verb).verbs == (verb,)
    for language in re.findall(r"\+\(([^)]*)\)", relation.modifier):
        assert re.fullmatch("[a-z]{2}(-[A-Z]{2})?", language)


@pytest.mark.proves("RES-09", "AMB-53")
@given(text=modifiers())
@MANY
def test_a_leading_part_and_what_is_left_make_the_whole(text: str) -> None:
    relation = Relation.from_modifier(text)
    leads = list(relation.leading())
    assert [len(lead.steps) for lead in leads] == list(range(len(relation.steps) - 1, 0, -1))
    for lead in leads:
        assert lead.modifier + relation.after(lead).modifier == relation.modifier
        assert relation.qualifier.startswith(lead.qualifier)
    assert relation.after(relation) == ITEM


@pytest.mark.proves("RES-07", "SVC-19", "AMB-47")
@given(wanted=modifiers(), offered=modifiers())
@MANY
def test_a_relation_accepts_itself_and_what_a_bare_translation_leaves_open(wanted: str, offered: str) -> None:
    one, two = Relation.from_modifier(wanted), Relation.from_modifier(offered)
    assert one.accepts(one)
    # As a pattern: a bare translation takes any parameter or none, a bare language any country.
    pattern = (
        re.escape(wanted)
        .replace(r"\+\(pt\)", r"\+\(pt(-[A-Z]{2})?\)")
        .replace(r"\+\(en\)", r"\+\(en(-[A-Z]{2})?\)")
    )
    pattern = re.sub(r"\\\+(?!\\\()", lambda _: r"\+(\([^)]*\))?", pattern)
    assert one.accepts(two) == bool(re.fullmatch(pattern, offered))


@pytest.mark.proves("URL-09", "AMB-41")
@given(mine=modifiers(), later=modifiers())
@MANY
def test_a_union_of_verbs_never_thins_out_the_first(mine: str, later: str) -> None:
    first, second = Relation.from_modifier(mine).verbs, Relation.from_modifier(later).verbs
    union = VerbList(first).union(second).verbs
    assert union[: len(first)] == first
    assert set(union) == {*first, *second}
    assert len(union) == len(first) + len({*second} - {*first})


@pytest.mark.proves("URL-11", "RES-07", "AMB-45")
@given(
    header=st.lists(
        st.tuples(languages, st.sampled_from(["", ";q=1", ";q=0.8", ";q=0.3", ";q=0"])), max_size=5
    ).map(lambda parts: ",".join(language + quality for language, quality in parts)),
    available=st.lists(languages, max_size=4, unique=True),
)
@MANY
def test_the_language_chosen_is_the_one_a_plain_lookup_finds(header: str, available: list[str]) -> None:
    assert LanguagePreference.parse(header).choose(available) == naive_lookup(header, available)


def naive_lookup(header: str, available: list[str]) -> str | None:
    """RFC 4647 lookup as AMB-45 settles it, for well-formed headers of two-letter languages."""
    parts = [part.partition(";q=") for part in header.split(",") if part]
    ranked = [(tag, float(quality) if quality else 1.0) for tag, _, quality in parts]
    allowed = [tag for tag in sorted(available) if (tag, 0.0) not in ranked]
    for tag, quality in sorted(ranked, key=lambda pair: -pair[1]):
        if quality == 0:
            continue
        for shorter in dict.fromkeys([tag, tag[:2]]):
            if shorter in allowed:
                return shorter
        with_country = [other for other in allowed if other.startswith(f"{tag}-")]
        if with_country:
            return with_country[0]
    return None


@pytest.mark.proves("URL-11", "AMB-45")
@given(
    header=any_text
    | spoiled(["pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3", "*;q=0.5, pt", "en;q=0,pt;q=0.1", "i-klingon"])
)
@MANY
def test_whatever_a_browser_sends_the_choice_is_one_of_those_offered(header: str) -> None:
    assert LanguagePreference.parse(header).choose(["en", "pt-BR", "wa"]) in {None, "en", "pt-BR", "wa"}
    assert LanguagePreference.parse(header).choose([]) is None
