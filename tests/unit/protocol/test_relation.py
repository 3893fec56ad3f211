"""Relations: one value, three spellings."""

import pytest

from ibi.errors import ParseError
from ibi.protocol.relation import ITEM, Relation, Step, StepKind
from support.printed_tables import is_printed_modifier

COMPOSITIONS = [  # URL-06, all fourteen
    (":", ".metadata"),
    (":+", ".metadata.translation"),
    ("!", ".lastedition"),
    ("!+", ".lastedition.translation"),
    ("!:", ".lastedition.metadata"),
    ("!+:", ".lastedition.translation.metadata"),
    ("!:+", ".lastedition.metadata.translation"),
    ("!+:+", ".lastedition.translation.metadata.translation"),
    ("+", ".translation"),
    ("+!", ".translation.lastedition"),
    ("+:", ".translation.metadata"),
    ("+!:", ".translation.lastedition.metadata"),
    ("+:+", ".translation.metadata.translation"),
    ("+!:+", ".translation.lastedition.metadata.translation"),
]


@pytest.mark.proves("URL-05", "URL-06", "SVC-05", "SVC-06")
@pytest.mark.parametrize(("modifier", "qualifier"), COMPOSITIONS)
def test_the_fourteen_compositions_have_three_spellings(modifier: str, qualifier: str) -> None:
    relation = Relation.from_modifier(modifier)
    assert relation == Relation.from_qualifier(qualifier) == Relation.from_verbs(relation.verbs)
    assert (relation.modifier, relation.qualifier) == (modifier, qualifier)


@pytest.mark.proves("URL-07")
def test_verbs_are_synonyms_of_modifiers() -> None:
    relation = Relation.from_verbs(["GetLastEdition", "GetMetadata(oai_dc)"])
    assert relation.modifier == "!:(oai_dc)"
    assert relation.verbs == ("GetLastEdition", "GetMetadata(oai_dc)")


def test_nothing_is_the_item_itself() -> None:
    assert Relation.from_modifier("") == Relation.from_qualifier("") == ITEM


@pytest.mark.parametrize(
    "text",
    [
        "::",
        "!!",
        "++",
        ":!",
        "+!+",
        "!+!",
        "!(pt)",
        "+()",
        "+(p)",
        "+(por)",
        ":()",
        ":(a b)",
        "x",
        "!x",
        "+(pt",
        "!" * 300,
        "!+:+:",
        "!+:++",
    ],
)
def test_nothing_else_can_be_composed(text: str) -> None:
    with pytest.raises(ParseError):
        Relation.from_modifier(text)


@pytest.mark.proves("AMB-42", "URL-10")
@pytest.mark.parametrize(
    "verbs",
    [["GetMetadata", "GetLastEdition"], ["GetMetadata", "GetMetadata"], ["GetFileList"], ["getmetadata"]],
)
def test_verbs_in_an_order_that_means_nothing_are_refused(verbs: list[str]) -> None:
    with pytest.raises(ParseError):
        Relation.from_verbs(verbs)


@pytest.mark.parametrize(
    "text",
    ["metadata", ".meta", ".metadata.", ".metadatax", ".metadata(oai_dc", "..metadata", ".nextedition"],
)
def test_a_qualifier_is_read_whole(text: str) -> None:
    with pytest.raises(ParseError):
        Relation.from_qualifier(text)


@pytest.mark.proves("AMB-43", "WILD-03")
def test_languages_are_read_in_any_case_and_formats_beyond_the_standard_are_read() -> None:
    assert Relation.from_modifier("+(PT-br)").modifier == "+(pt-BR)"
    assert Relation.from_modifier(":(BibINPE)").steps == (Step(StepKind.METADATA, "BibINPE"),)
    assert not is_printed_modifier("+(PT-br)")
    assert not is_printed_modifier(":(BibINPE)")
    assert is_printed_modifier("!+(pt-BR):(oai_dc)+")


@pytest.mark.proves("RES-09")
def test_leading_parts_come_longest_first_and_leave_the_rest() -> None:
    relation = Relation.from_modifier("!+(pt):")
    assert [lead.modifier for lead in relation.leading()] == ["!+(pt)", "!"]
    assert relation.after(Relation.from_modifier("!")).modifier == "+(pt):"
    assert relation.after(relation) == ITEM


@pytest.mark.proves("SVC-19", "AMB-47")
@pytest.mark.parametrize(
    ("wanted", "offered", "accepted"),
    [
        ("+", "+(pt)", True),
        ("+", "+", True),
        ("+(pt)", "+(pt)", True),
        ("+(pt)", "+(pt-BR)", True),
        ("+(pt-BR)", "+(pt)", False),
        ("+(pt)", "+", False),
        (":", ":(oai_dc)", False),
        (":", "+", False),
        ("+", ":", False),
        ("+(pt)", ":", False),
        ("+:", "+(en):", True),
        ("+:", "+", False),
    ],
)
def test_a_bare_translation_accepts_any_language(wanted: str, offered: str, accepted: bool) -> None:
    assert Relation.from_modifier(wanted).accepts(Relation.from_modifier(offered)) is accepted
