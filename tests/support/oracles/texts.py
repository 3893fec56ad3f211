"""Hostile and nearly right texts for property tests (hypothesis strategies), and the settings they run under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import settings
from hypothesis import strategies as st

from support.oracles.vectors import load

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

MANY: Final = settings(max_examples=2 * settings().max_examples, derandomize=True, deadline=None)
"""The same examples at each run, enough of them, and no stopwatch."""

LABELS: Final = [
    vector.input["label"] for name in ("grammar.repository", "grammar.ibip") for vector in load(name)
]
URLS: Final = [vector.input["url"] for vector in load("url.parse")]
QUERIES: Final = [vector.input["url"].partition("?")[2] for vector in load("message")]
BODIES: Final = [vector.input["text"] for vector in load("pairlist") if len(vector.input["text"]) < 800]

LOOKALIKES: Final = "\u212a\u0130\u0131\uff10\uff11\u0660\u00e9\u2028\u0085\u00a0\ud800\x00\r\n\t\x7f"
"""What folds into ASCII letters, counts as a digit or a blank, or breaks lines somewhere in Python."""

_SIGNIFICANT: Final = " /.@:!+()?&=%#{}-\\;,'\"~*WwXx019ZzIO"
any_character: Final = st.characters(codec=None) | st.sampled_from(LOOKALIKES + _SIGNIFICANT)
any_text: Final = st.text(any_character, max_size=60) | st.text(st.sampled_from(_SIGNIFICANT), max_size=30)


@st.composite
def spoiled(draw: st.DrawFn, seeds: list[str]) -> str:
    """A seed with up to four pieces cut out, doubled or replaced."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 4)))
        piece = draw(st.sampled_from(["", text[start:end] * 2]) | st.text(any_character, max_size=3))
        text = text[:start] + piece + text[end:]
    return text


def hostile(seeds: list[str]) -> SearchStrategy[str]:
    """Any text at all, or a seed that is slightly spoiled, or a seed as it is."""
    return any_text | spoiled(seeds) | st.sampled_from(seeds)


labels: Final = hostile(LABELS)
urls: Final = hostile(URLS)


def _one_of_words(words: str) -> SearchStrategy[str]:
    return st.text(st.sampled_from(words), min_size=1, max_size=8)


_word: Final = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
_last_word: Final = st.from_regex(r"[a-zA-Z]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)
_two: Final = st.from_regex(r"[0-9]{2}", fullmatch=True)


@st.composite
def repositories(draw: st.DrawFn) -> str:
    """A text that the grammar of uniform repository names derives (GEN-10)."""
    subdomain = ".".join([*draw(st.lists(_word, max_size=3)), draw(_last_word)]) + draw(
        st.sampled_from(["", "."])
    )
    port = draw(st.sampled_from(["", ".", "@"]))
    port += draw(st.from_regex(r"[0-9]{1,6}", fullmatch=True)) if port else ""
    year = draw(st.from_regex(r"(19|20)[0-9]{2}|[0-9]{4,7}", fullmatch=True))
    second = draw(st.sampled_from(["", "."]))
    if second:
        second += draw(_two) + draw(
            st.sampled_from(["", ".0", ".5", ".05", ".50", ".000000001", ".123456789012"])
        )
    rest = ".".join(draw(st.tuples(_two, _two, _two, _two)))
    return f"{subdomain}/{draw(_word)}{port}/{year}/{rest}{second}"


_b27: Final = _one_of_words("23456789ABCDEFGHJKLMNPQRSTUabcdefghjklmnpqrstu")


@st.composite
def ibips(draw: st.DrawFn) -> str:
    """A text that the strict grammar of IBIps derives (GEN-63)."""
    port = draw(st.just("") | _b27)
    fraction = draw(st.just("") | _b27.map("W{}".format) | _b27.map("w{}".format))
    return f"{draw(_b27)}{draw(st.sampled_from('WXwx'))}{port}/{draw(_b27)}{fraction}"


languages: Final = st.sampled_from(["pt", "en", "pt-BR", "en-GB", "wa"])


@st.composite
def modifiers(draw: st.DrawFn) -> str:
    """A text that the printed rule of modifiers derives (URL-01)."""
    translation = st.just("+") | languages.map("+({})".format)
    edition = draw(st.sampled_from(["", "!", "t", "!t", "t!"]))
    metadata = draw(st.sampled_from(["", ":", ":(oai_dc)", ":t", ":(oai_dc)t"]))
    return "".join(draw(translation) if sign == "t" else sign for sign in edition) + metadata.replace(
        "t", draw(translation)
    )
