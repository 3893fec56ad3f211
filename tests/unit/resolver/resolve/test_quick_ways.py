"""Where the quick way is taken, it says what the plain one says: of pair lists, values, relations and entries."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.language import LanguagePreference
from ibi.protocol.pair_list import MAX_PAIRS, read_pairs
from ibi.protocol.query_string import escape
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.url_list import UrlList, find_wanted, relations_of
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.selection import offered, satisfying
from support.oracles.attempts import attempt
from support.oracles.texts import BODIES, MANY, hostile

if TYPE_CHECKING:
    from ibi.protocol.pair_list import PairList, Value

pieces = st.sampled_from(
    [" ", "\r\n", "\t", "{", "}", "{}", "{a}", "{a b}", "a", "b", "name", "url", "|", "~", "é"]
)
bodies = st.lists(pieces, max_size=14).map("".join) | hostile(BODIES)
_STEPS = (
    "",
    ".lastedition",
    ".translation",
    ".translation(pt)",
    ".translation(PT)",
    ".metadata(oai_dc)",
    ".x",
    "key",
)
names = st.builds(
    "".join, st.tuples(st.sampled_from(["url", "ibi", "state", "timestamp"]), *[st.sampled_from(_STEPS)] * 2)
)
values: st.SearchStrategy[Value] = st.sampled_from(
    [
        "http://files.example/1", "ftp://x", "Original", "Deleted", "2020-01-01T00:00:00Z", (), ("Copy",),
        ("rep", "example.org/a/2020/01.02.00.00"), ("rep", "EXAMPLE.org/a/2020/01.02.00.00"), ("rep", "?"),
        ("ibip", "8JMKD3MGP8W/35MMLL8"), ("a", "b", "c"),
    ]
)  # fmt: skip
answers = st.dictionaries(names | st.sampled_from(["ibi.archiveservice", "urlkey"]), values, max_size=8)


_BLANKS = " \t\r\n"
_PLAIN = frozenset(f"{ascii_letters}{digits}-._~/:@()!$'*,;[]")  # what no value, query or URL ends with


def pair_by_pair(text: str) -> list[tuple[str, Value]] | None:
    """Read a list as a person does: what stands between blanks, or in braces, is in turn a name and its value."""
    tokens: list[str] = []
    rest = text.strip(_BLANKS)
    while rest:
        token = rest[: rest.find("}") + 1] if rest.startswith("{") else rest.split(None, 1)[0]
        rest = rest[len(token) :]
        if not token or rest.lstrip(_BLANKS) == rest != "":
            return None
        tokens.append(token)
        rest = rest.lstrip(_BLANKS)
    pairs: dict[str, Value] = {}
    for name, value in zip(tokens[::2], tokens[1::2], strict=False):
        pairs[name] = tuple(value[1:-1].split()) if value.startswith("{") else value
    words = [
        word
        for name, value in pairs.items()
        for word in (name, *([value] if isinstance(value, str) else value))
    ]
    whole = len(tokens) == 2 * len(pairs) <= 2 * MAX_PAIRS
    plain = all("!" <= char <= "~" and char not in "{}" for word in words for char in word)
    return list(pairs.items()) if whole and plain else None


@given(text=bodies)
@example("a 1 a 2")
@example("a { b  c\r\n}")
@example("a {1")
@example(" \t\r\n ")
@MANY
def test_a_list_that_is_read_at_once_is_what_it_is_pair_by_pair(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    if body.isascii():
        quick = attempt(read_pairs, body)
        assert (None if isinstance(quick, ParseError) else list(quick.items())) == pair_by_pair(text)


@given(value=st.text(st.characters(max_codepoint=255), max_size=30) | st.text("ab/:@-._~%+ &", max_size=30))
@MANY
def test_a_value_with_nothing_to_escape_is_itself(value: str) -> None:
    assert escape(value) == "".join(char if char in _PLAIN else f"%{ord(char):02X}" for char in value)


@given(pairs=answers, word=st.sampled_from(["url", "ibi", "state"]))
@MANY
def test_relations_are_those_whose_qualifier_can_be_read_and_is_spelled_so(
    pairs: PairList, word: str
) -> None:
    plain = []
    for name in pairs:
        relation = attempt(Relation.from_qualifier, name[len(word) :])
        if name.startswith(word) and isinstance(relation, Relation) and name == word + relation.qualifier:
            plain.append(relation)
    assert list(relations_of(pairs, word)) == plain


@given(pairs=answers, qualifiers=st.lists(st.sampled_from(_STEPS[:4]), max_size=6))
@MANY
def test_what_an_entry_says_does_not_depend_on_what_was_looked_at_before(
    pairs: PairList, qualifiers: list[str]
) -> None:
    answer = UrlList(pairs)
    for relation in map(Relation.from_qualifier, qualifiers):
        assert answer.entry(relation) == UrlList(pairs).entry(relation)


@given(pairs=answers, service=st.sampled_from(["example.org/a/2020/01.02.00.00", "8JMKD3MGP8W/35MMLL8"]))
@MANY
def test_an_answer_is_of_the_archive_that_it_names(pairs: PairList, service: str) -> None:
    answer, ibi = UrlList(pairs), parse_ibi(service)
    named = answer.archive_service
    assert answer.is_of(ibi) == (named is not None and named.names(ibi))


@given(pairs=answers, languages=st.sampled_from([(), ("pt",), ("en", "pt-br")]))
@MANY
def test_the_item_itself_is_found_as_anything_else_is(pairs: PairList, languages: tuple[str, ...]) -> None:
    answer, preference = UrlList(pairs), LanguagePreference(languages)
    archive = Archive(parse_ibi("example.org/a/2020/01.01.00.00"), "a.example")

    def leads(_: object, url: str | None) -> bool:
        return url is not None and url.startswith("http:")

    for relation in (ITEM, Relation.from_modifier("+"), Relation.from_modifier("!")):
        assert offered(answer, relation, preference) == find_wanted(
            answer, relation, preference, UrlList(pairs).offered()
        )
        living = [each for each in answer.offered() if leads(archive, answer.url(each))]
        found = satisfying(archive, answer, relation, preference, leads)
        assert found == find_wanted(answer, relation, preference, living)
