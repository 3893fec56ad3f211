"""Resumption tokens: read as they were made, and by no other Archive, for no other verb, and in no other spelling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.oai.lists import ListPosition, ResumptionTokens

NOW = 1_700_000_000
numbers = st.integers(0, 2**63)
positions = st.builds(
    ListPosition,
    verb=st.sampled_from(["ListRecords", "ListIdentifiers"]),
    prefix=st.sampled_from(["oai_dc", "datacite"]),
    part=st.sampled_from(["", "data", "access:open", "language:pt-BR"]),
    first=st.none() | numbers,
    last=st.none() | numbers,
    stamp=numbers,
    number=numbers,
    cursor=numbers,
    size=numbers,
    expires=st.integers(NOW, NOW + 10**6),
)


def tokens(secret: bytes = b"secret", now: float = NOW) -> ResumptionTokens:
    return ResumptionTokens(secret, lambda: now)


@given(position=positions)
def test_a_token_is_read_as_it_was_made(position: ListPosition) -> None:
    token = tokens().write(position)
    assert tokens().read(token, position.verb) == position
    other = "ListRecords" if position.verb == "ListIdentifiers" else "ListIdentifiers"
    assert tokens().read(token, other) is None
    assert tokens(b"another").read(token, position.verb) is None
    assert tokens(now=position.expires).read(token, position.verb) == position
    assert tokens(now=position.expires + 1).read(token, position.verb) is None


@given(position=positions, at=st.integers(0, 10_000), character=st.characters(codec="ascii"))
def test_a_token_with_another_character_is_none(position: ListPosition, at: int, character: str) -> None:
    token = tokens().write(position)
    at %= len(token) + 1
    for changed in (token[:at] + character + token[at + 1 :], token[:at] + character + token[at:]):
        if changed != token:
            assert tokens().read(changed, position.verb) is None
