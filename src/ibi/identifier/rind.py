"""What stands around an identifier in the wild: addresses, wrappers, report codes, brackets. Each piece has a kind.

invisible characters · entity · percent encoding · blanks · line break      repaired before a label shows
resolver address · archive address · url scheme · archive path · cgi wrapper · upn · ibi scheme · relative path ·
query parameter · wrapper site                                              mostly before it
report code · fragment                                                      behind it
punctuation · words                                                         on both sides
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Peeling(NamedTuple):
    """One thing that was taken off: its kind (one of the fixed words above) and the text itself."""

    kind: str
    text: str


_QUOTES = "«»\u2018\u2019\u201c\u201d"
_PORT = "(?::[0-9]{1,5})?"
RESOLVER_ADDRESS = rf"(?i:(?:(?:https?:)?//)?(?:www\.)?urlib\.net){_PORT}/"
_HOST = r"(?:[0-9A-Za-z-]{1,63}\.){1,8}[A-Za-z][0-9A-Za-z-]{0,62}"
_SCHEME_AND_HOST = rf"(?i:https?)://(?:{_HOST}|[0-9A-Za-z.-]{{1,63}}|\[[0-9A-Fa-f:.]{{2,45}}\]){_PORT}/"
_WRAPPERS: dict[str, str] = {
    "resolver address": RESOLVER_ADDRESS,
    "archive address": rf"{_SCHEME_AND_HOST}|(?:(?<![^\s\"'<(=])|(?<=//)){_HOST}{_PORT}/",
    "upn": "(?i:upn):[0-9A-Za-z]{1,16}-?:/?",
    "ibi scheme": "(?i:ibi):/{0,2}",
    "cgi wrapper": r"(?<![^/\s\"'<(=])[0-9A-Za-z_-]{1,64}\.cgi/",
    "archive path": r"(?<![^/\s\"'<(=])(?:col|rep-?|ibi|goto-?)/",
    "relative path": r"(?<![^\s\"'<(=])(?:\.{1,2}/)+",
    "query parameter": "[0-9A-Za-z._-]{1,64}=",
    "url scheme": "(?i:https?):/{0,2}",
    "punctuation": rf"[\"'<>()\[\]{{}}`*|…,;{_QUOTES}]+|(?<![^\s])/",
}
# A bare host is taken off the front only where a known path follows: it may as well start a label.
_BARE_HOST = rf"{_HOST}{_PORT}/(?=(?:col|rep-?|ibi|goto-?|[0-9A-Za-z_-]{{1,64}}\.cgi)/)"
_HEAD_RULES = {**_WRAPPERS, "archive address": rf"{_SCHEME_AND_HOST}|{_BARE_HOST}"}
_HEAD = re.compile(f"(?:{'|'.join(_HEAD_RULES.values())})*", re.ASCII)
_TAILS = [(kind, re.compile(rf"(?:{rule})\Z", re.ASCII)) for kind, rule in _WRAPPERS.items()]
_WINDOW = 400  # characters that the longest single wrapper can have
_DEEPEST = 24  # wrappers around wrappers that are told apart
_STORED = frozenset({"col/", "attachment.cgi/", "displaydoccontent.cgi/"})


def head_length(token: str) -> int:
    """How many characters of known wrapping a text starts with."""
    match = _HEAD.match(token)
    return match.end() if match else 0


def before(text: str) -> list[Peeling]:
    """The pieces of what stands before an identifier, from left to right."""
    pieces: list[Peeling] = []
    while text and len(pieces) < _DEEPEST:
        near = text[-_WINDOW:]
        kind, match = next(
            ((kind, match) for kind, rule in _TAILS if (match := rule.search(near))), ("", None)
        )
        if match is None or not match[0]:
            break
        pieces.insert(0, Peeling(kind, match[0]))
        text = text[: -len(match[0])]
    words = text.rstrip()
    token = text[len(words) :] or re.split(r"\s", words)[-1]
    if re.search("[0-9A-Za-z]", token) and ("/" in token or "?" in token):
        pieces.insert(0, Peeling("cgi wrapper" if ".cgi?" in token else "wrapper site", token))
        words = words[: -len(token)].rstrip()
    return [_rest(words.strip()), *pieces] if words.strip() else pieces


def is_in_query(pieces: list[Peeling]) -> bool:
    """Whether what stands before an identifier makes it the value of a query parameter."""
    return any(
        kind == "query parameter" or (kind in {"cgi wrapper", "wrapper site"} and "?" in text)
        for kind, text in pieces
    )


def is_stored_file(pieces: list[Peeling]) -> bool:
    """Whether what stands before an identifier makes the path behind it one of an Archive's folders."""
    return any(kind == "relative path" or text in _STORED for kind, text in pieces[-1:])


_TOKEN_END = re.compile(rf"[\s<>\"`{{}}|\\^{_QUOTES}]")
_GLUED = frozenset("`{|\\^")
_REPORT_CODE = re.compile("-[A-Z]{2,4}(?![0-9A-Za-z])")
_MODIFIERS = r"(?:(?:[!+:]|%21|%2[Bb]|%3[Aa])(?:(?:\(|%28)[0-9A-Za-z_.-]*(?:\)|%29))?)*+"
_URL_PART = re.compile(rf"{_MODIFIERS}(?=[/?]|\Z)(?P<path>(?:/[^?#]*)?)(?P<query>(?:\?[^#]*)?)")
_DOCUMENTS = re.compile(r"/doc(?=[/?]|\Z)")


def behind(text: str, *, in_query: bool, stored: bool) -> tuple[str, list[Peeling]]:
    """What stands behind an identifier: the part of it that continues a persistent URL, and the pieces of the rest."""
    pieces: list[Peeling] = []
    end = _TOKEN_END.search(text)
    token, words = (text[: end.start()], text[end.start() :]) if end else (text, "")
    code = _REPORT_CODE.match(token)
    if code:
        pieces.append(Peeling("report code", code[0]))
        token = token[code.end() :]
    if in_query and "&" in token:
        token, ampersand, rest = token.partition("&")
        words = ampersand + rest + words
    url = (
        "" if token in {":", "!"} and words.strip() else _without_punctuation(token)
    )  # a colon in a sentence
    part = _URL_PART.match(url)
    after = part[0] if part else ""
    if words[:1] in _GLUED and url and "/" not in url and "?" not in url:
        after = ""  # a "+" before a brace is no modifier
    dots = token[len(url) :]
    rest = url[len(after) :]
    if rest.startswith("#"):
        pieces.append(Peeling("fragment", rest))
        rest = ""
    if stored and part and after:
        folder = part["path"] if not (doc := _DOCUMENTS.match(part["path"])) else doc[0]
        if folder:
            pieces.insert(0, Peeling("archive path", folder))
        after = after[: part.start("path")] + after[part.start("path") + len(folder) :]
        after = "" if after in {"/", "?"} else after
    if dots and not rest:
        pieces.append(Peeling("punctuation", dots))
        dots = ""
    remaining = (rest + dots + words).strip()
    if remaining:
        pieces.append(_rest(remaining, in_query=in_query))
    return after, pieces


def _rest(text: str, *, in_query: bool = False) -> Peeling:
    """What is left over: words, or only marks."""
    if in_query and text[0] in "&+":
        return Peeling("query parameter", text)
    return Peeling("words" if re.search("[0-9A-Za-z]", text) else "punctuation", text)


def _without_punctuation(token: str) -> str:
    """The token without the stops and brackets of the sentence around it."""
    legacy_metadata = token == "??"  # noqa: S105 - a spelling of the metadata modifier (AMB-40)
    while token and not legacy_metadata:
        last = token[-1]
        unopened = last == ")" and token.count("(") < token.count(")")
        in_url = last in "!:" and ("/" in token or "?" in token)
        if not (last in ".,;'*]…?" or unopened or in_url):
            break
        token = token[:-1]
    return token
