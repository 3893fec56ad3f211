"""The pieces of text around an identifier (WILD-01).

Each has one of these kinds:

    invisible characters · entity · percent encoding · blanks · line break      repaired before the search
    resolver address · archive address · url scheme · archive path · cgi wrapper · upn · ibi scheme ·
    relative path · query parameter · wrapper site                              mostly before the label
    report code · fragment                                                      behind the label
    punctuation · words                                                         on both sides
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Wrapper(NamedTuple):
    """One piece around an identifier: its kind (one of those listed above) and its text."""

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
# A host without scheme is removed from the front only before a known path, because a label may begin with it.
_BARE_HOST = rf"{_HOST}{_PORT}/(?=(?:col|rep-?|ibi|goto-?|[0-9A-Za-z_-]{{1,64}}\.cgi)/)"
_LEADING_RULES = {**_WRAPPERS, "archive address": rf"{_SCHEME_AND_HOST}|{_BARE_HOST}"}
LEADING = re.compile(f"(?:{'|'.join(_LEADING_RULES.values())})*", re.ASCII)
_ENDINGS = [(kind, re.compile(rf"(?:{rule})\Z", re.ASCII)) for kind, rule in _WRAPPERS.items()]
_WINDOW = 400  # characters that the longest single wrapper can have
_DEEPEST = 24  # nested wrappers that are recognised one by one


def before(text: str) -> list[Wrapper]:
    """Split the text before an identifier into pieces, from left to right."""
    pieces: list[Wrapper] = []
    while text and len(pieces) < _DEEPEST:
        near = text[-_WINDOW:]
        piece = next(
            (Wrapper(kind, match[0]) for kind, rule in _ENDINGS if (match := rule.search(near))), None
        )
        if piece is None or not piece.text:
            break
        pieces.insert(0, piece)
        text = text[: -len(piece.text)]
    words = text.rstrip()
    token = text[len(words) :] or re.split(r"\s", words)[-1]
    if re.search("[0-9A-Za-z]", token) and ("/" in token or "?" in token):
        pieces.insert(0, Wrapper("cgi wrapper" if ".cgi?" in token else "wrapper site", token))
        words = words[: -len(token)].rstrip()
    return [_rest(words.strip()), *pieces] if words.strip() else pieces


_TOKEN_END = re.compile(rf"[\s<>\"`{{}}|\\^{_QUOTES}]")
_CLOSING = frozenset(f'>"{_QUOTES}')
_GLUED = frozenset("`{|\\^")
_REPORT_CODE = re.compile("-[A-Z]{2,4}(?![0-9A-Za-z])")
_MODIFIERS = r"(?:(?:[!+:]|%21|%2[Bb]|%3[Aa])(?:(?:\(|%28)[0-9A-Za-z_.-]*(?:\)|%29))?)*+"
_URL_PART = re.compile(rf"{_MODIFIERS}(?=[/?]|\Z)(?P<path>(?:/[^?#]*)?)(?P<query>(?:\?[^#]*)?)")
_STORED = frozenset({"col/", "attachment.cgi/", "displaydoccontent.cgi/"})
_DOCUMENTS = re.compile(r"/doc(?=[/?]|\Z)")


def behind(text: str, ahead: list[Wrapper]) -> tuple[str, list[Wrapper]]:
    """Split the text behind an identifier into the rest of a persistent URL and pieces; `ahead`: those before it."""
    in_query = _is_in_query(ahead)
    pieces: list[Wrapper] = []
    end = _TOKEN_END.search(text)
    token, words = (text[: end.start()], text[end.start() :]) if end else (text, "")
    code = _REPORT_CODE.match(token)
    if code:
        pieces.append(Wrapper("report code", code[0]))
        token = token[code.end() :]
    if in_query and "&" in token:
        token, ampersand, rest = token.partition("&")
        words = ampersand + rest + words
    # A lone colon or exclamation mark belongs to the sentence, except before a closing ">" or quotation mark.
    of_sentence = token in {":", "!"} and words.strip() and words[0] not in _CLOSING
    url = "" if of_sentence else _without_punctuation(token)
    part = _URL_PART.match(url)
    after = part[0] if part else ""
    if words[:1] in _GLUED and url and "/" not in url and "?" not in url:
        after = ""  # a "+" before a brace is no modifier
    dots = token[len(url) :]
    rest = url[len(after) :]
    if rest.startswith("#"):
        pieces.append(Wrapper("fragment", rest))
        rest = ""
    if part and after and _is_stored_file(ahead):
        folder = part["path"] if not (doc := _DOCUMENTS.match(part["path"])) else doc[0]
        if folder:
            pieces.insert(0, Wrapper("archive path", folder))
        after = after[: part.start("path")] + after[part.start("path") + len(folder) :]
        after = "" if after in {"/", "?"} else after
    if dots and not rest:
        pieces.append(Wrapper("punctuation", dots))
        dots = ""
    remaining = (rest + dots + words).strip()
    if remaining:
        pieces.append(_rest(remaining, in_query=in_query))
    return after, pieces


def _is_in_query(pieces: list[Wrapper]) -> bool:
    """Return whether an identifier after these pieces is the value of a query parameter."""
    return any(
        kind == "query parameter" or (kind in {"cgi wrapper", "wrapper site"} and "?" in text)
        for kind, text in pieces
    )


def _is_stored_file(pieces: list[Wrapper]) -> bool:
    """Return whether these pieces before an identifier make the path behind it a folder of an Archive."""
    return any(kind == "relative path" or text in _STORED for kind, text in pieces[-1:])


def _rest(text: str, *, in_query: bool = False) -> Wrapper:
    """Return the remaining text as one piece: words, punctuation, or further query parameters."""
    if in_query and text[0] in "&+":
        return Wrapper("query parameter", text)
    return Wrapper("words" if re.search("[0-9A-Za-z]", text) else "punctuation", text)


def _without_punctuation(token: str) -> str:
    """Remove the punctuation and brackets of the sentence from the end of a token."""
    legacy_metadata = token == "??"  # noqa: S105 - a spelling of the metadata modifier (AMB-40: ?? means metadata)
    while token and not legacy_metadata:
        last = token[-1]
        unopened = last == ")" and token.count("(") < token.count(")")
        in_url = last in "!:" and ("/" in token or "?" in token)
        if not (last in ".,;'*]…?" or unopened or in_url):
            break
        token = token[:-1]
    return token
