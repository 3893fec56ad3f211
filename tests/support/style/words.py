"""Private words that must not come back: which they are, what to write instead, and where one still stands.

Run it to see them: `python tests/support/style/words.py src/ibi/http` lists each place; without a folder, all places.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
LOOKED_AT: Final = ("src", "tests", "proofs", "bench", "tools", "docs")

# This list and its test name the words in order to refuse them.
LEFT_OUT: Final = ("tests/support/style/words.py", "tests/style/test_words.py")
# Decisions are not rewritten when words change: only their names and titles must be found by the field's words.
DECISIONS: Final = "docs/decisions/"

# In docstrings, comments and documents as whole words, in names as whole parts; the plural is refused, too.
EVERYWHERE: Final = {
    "anybody": "any client, any caller, a reader",
    "asleep": "circuit breaker: open",
    "asker": "client",
    "clerk": "commit worker",
    "crowd": "semaphore, slot, connection pool",
    "desk": "batcher",
    "door": "route, handler, adapter, client, lock file",
    "errand": "outgoing request",
    "everybody": "all clients, all readers",
    "floor": "layer",
    "gathering": "acknowledgment counter, batch",
    "gratitude": "acknowledgment",
    "guest": "client, reader",
    "house": "layers, the program",
    "household": "the program",
    "inquiry": "query",
    "intake": "ingest",
    "keeper": "item store",
    "lane": "fast path, ordinary path",
    "ledger": "table module, repository",
    "manners": "config",
    "networking": "membership",
    "nobody": "no client, none",
    "office": "administration",
    "parcel": "pending acknowledgment",
    "patience": "timeout",
    "peel": "unwrap",
    "peeled": "unwrapped",
    "peeling": "unwrapping, wrapper",
    "pulse": "event-loop lag",
    "ration": "CPU budget",
    "renewal": "settings reload",
    "renewing": "settings reload",
    "rind": "wrapper",
    "roll": "JSON list file",
    "roof": "layer",
    "room": "module, package; capacity",
    "screen": "page",
    "sealed": "signed (by HMAC), chained (by hashes)",
    "sealing": "signing",
    "slips": "typo suggestions",
    "somebody": "a client, a caller, a process",
    "sparing": "admission control",
    "tallies": "shared counters",
    "tally": "shared counter",
    "testimony": "trace, response",
    "thank": "acknowledge, acknowledgment",
    "thanked": "acknowledged, got an acknowledgment",
    "thanker": "acknowledgment sender",
    "thanking": "acknowledging",
    "ticket": "slot in the fair queue",
    "visitor": "request, client, reader",
    "wall": "dependency rule",
    "weighing": "admission control",
    "whoever": "the caller, the client, the worker",
    "wish": "parsed request",
    "witness": "replica, response",
}

# Good English, but as a name each has meant something private.
IN_NAMES: Final = {
    "advice": "suggestion",
    "advising": "suggestion",
    "alike": "interning of equal responses",
    "asked": "request",
    "aside": "temporary, probationary, in a thread",
    "care": "preservation",
    "describing": "representations",
    "express": "fast path",
    "hearing": "response",
    "mark": "version, fingerprint, etag, snapshot",
    "pace": "pacer",
    "patient": "wait_for_all",
    "recalled": "cached",
    "remembered": "cached",
    "said": "written, read, response",
    "sharing": "replication",
    "showing": "item page",
    "sleeping": "suspended (circuit open or half open, or paused)",
    "story": "trace",
    "told": "reported, response, trace",
    "warming": "cache policy",
}

# As the whole name of a class these clash with others; say of what.
BARE_CLASSES: Final = dict.fromkeys(
    "Again Asked Caller Found Frame Given Hand Limit Line Place Record Rules Sign State Told "
    "Verdict Visit Way".split(),
    "qualify it: HolderHint, StoredFile, EditionLink",
)

# In prose only.
PHRASES: Final = {
    "at hand": "in the in-process cache",
    "begins anew": "restarts",
    "express lane": "fast path",
    "front door": "public names, entry point",
    "handing out": "export",
    "he": "it, they",
    "him": "it, them",
    "his": "its, their",
    "is begun": "starts",
    "is over": "ends, has ended",
    "left alone": "circuit breaker: open",
    "lie ready": "are in the redirect cache",
    "lies ready": "is in the redirect cache",
    "short way": "fast path",
    "taking in": "ingest",
}

# Where such a word is the field's or the standard's, or in a sentence of the doctor that a page explains.
FIELDS_WORDS: Final = re.compile(
    r"waiting[ _-]rooms?|WaitingRooms?|wall[ _-]clocks?|floor\(|screen readers?|rolls? (?:it )?back|roll forward"
    r"|little room is left",
    re.IGNORECASE,
)
# What strangers see: keys of settings, roles and requests that keep the names they have been given.
KEPT_NAMES: Final = {
    ("src/ibi/runtime/settings/__init__.py", "express"),  # a key of resolver.toml
    ("src/ibi/accounts/people.py", "KEEPER"),  # a role, as accounts.json has it
}


class WordFound(NamedTuple):
    """A private word where it stands, and what to write instead."""

    path: str
    line: int
    word: str
    instead: str


def _plurals(words: dict[str, str]) -> dict[str, str]:
    more = {}
    for word, instead in words.items():
        more[word] = more[f"{word}s"] = instead
        if word.endswith("y"):
            more[f"{word[:-1]}ies"] = instead
    return more


_IN_PROSE: Final = _plurals(EVERYWHERE) | PHRASES
_PROSE: Final = re.compile(rf"\b(?:{'|'.join(sorted(_IN_PROSE, key=len, reverse=True))})\b", re.IGNORECASE)
_PARTS: Final = _plurals(EVERYWHERE) | _plurals(IN_NAMES)
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_NO_NAMES: Final = re.compile(
    r"(\"\"\"|''').*?\1|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*|\bpytest\.mark\b", re.DOTALL
)
"""Texts, comments, and the one name that half of all tests use."""
_AFTER_A_SHARP: Final = re.compile("#.*")
_LETTERS: Final = re.compile("[a-z]+")
_SINGLE: Final = frozenset(word for word in _IN_PROSE if " " not in word)
_SEVERAL: Final = tuple(words for words in _IN_PROSE if " " in words)


def _may_hold(text: str) -> bool:
    """Whether a private word may stand in a text; a set of its words is made faster than one is searched for."""
    lowered = text.lower()
    return not _SINGLE.isdisjoint(_LETTERS.findall(lowered)) or any(words in lowered for words in _SEVERAL)


def in_prose(text: str) -> Iterator[tuple[int, str, str]]:
    """(line from 0, word, what to write instead) for every private word of a sentence."""
    text = FIELDS_WORDS.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _PROSE.finditer(text):
        yield text.count("\n", 0, match.start()), match[0], _IN_PROSE[match[0].lower()]


@cache
def in_name(name: str) -> tuple[tuple[str, str], ...]:
    """(part, what to write instead) for every private part of a name in snake_case or CamelCase."""
    if name.startswith("test_"):  # a sentence
        return tuple((word, instead) for _, word, instead in in_prose(name.replace("_", " ")))
    parts = _PART.findall(FIELDS_WORDS.sub("", name))
    return tuple((part, _PARTS[part.lower()]) for part in parts if part.lower() in _PARTS)


class _Module(NamedTuple):
    """What a module names and says, each with its line; names that it only uses are another's, such as `math.floor`."""

    names: list[tuple[int, str]]
    classes: list[tuple[int, str]]
    sentences: list[tuple[int, str]]


# What holds no node, or one that says nothing: names, numbers, contexts, operators.
_BARE: Final = frozenset(
    "arg asname attr conversion ctx id kind level module name op ops type_comment".split()
)


_HOLDING: Final = {
    kind: tuple(field for field in kind._fields if field not in _BARE and kind is not ast.Constant)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Every node of a tree but contexts and operators, in no particular order; far faster than `ast.walk`."""
    found: list[ast.AST] = []
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        found.append(node)
        for field in _HOLDING[type(node)]:
            value = getattr(node, field)
            if isinstance(value, ast.AST):
                open_nodes.append(value)
            elif isinstance(value, list):
                open_nodes += [each for each in value if isinstance(each, ast.AST)]
    return found


_TELLING: Final = frozenset(
    (
        *(ast.Name, ast.Attribute, ast.arg, ast.alias, ast.Expr),
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    )
)


def _read(tree: ast.Module) -> _Module:
    """Gather names, classes and docstrings, those of attributes as well, in one walk: the files are many."""
    names, classes, sentences = [], [], []
    for node in nodes_of(tree):
        if type(node) not in _TELLING:
            continue
        match node:
            case ast.Name(ctx=ast.Store()):
                names.append((node.lineno, node.id))
            case ast.Attribute(ctx=ast.Store()):
                names.append((node.lineno, node.attr))
            case ast.arg():
                names.append((node.lineno, node.arg))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.append((node.lineno, node.name))
            case ast.ClassDef():
                names.append((node.lineno, node.name))
                classes.append((node.lineno, node.name))
            case ast.alias(asname=str(name)):
                names.append((node.lineno, name))
            case ast.Expr(value=ast.Constant(value=str(text))):
                sentences.append((node.lineno, text))
    return _Module(names, classes, sentences)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module; other strings than docstrings are data, or shown to people."""
    if not _may_hold("\n".join(_AFTER_A_SHARP.findall(text))):  # to look at tokens costs more than all else
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def of_module(path: str, text: str) -> Iterator[WordFound]:
    """The private words of a Python module: in its names, docstrings and comments."""
    in_sentences = _may_hold(text)
    if not in_sentences and not any(
        in_name(name) or name in BARE_CLASSES for name in set(_NAME.findall(_NO_NAMES.sub(" ", text)))
    ):
        return
    module = _read(ast.parse(text))
    for line, name in module.names:
        if (path, name) not in KEPT_NAMES:
            yield from (WordFound(path, line, f"{part} in {name}", to) for part, to in in_name(name))
    for line, name in module.classes:
        if name in BARE_CLASSES:
            yield WordFound(path, line, f"class {name}", BARE_CLASSES[name])
    if not in_sentences:  # most modules
        return
    for line, sentence in [*module.sentences, *_comments(text)]:
        yield from (WordFound(path, line + below, word, to) for below, word, to in in_prose(sentence))


# A page's code, as a block, indented or in a line; where a link leads; and what is not shown.
_CODE: Final = re.compile(
    r"^```.*?^```|^ {4}[^\n]*|`[^`\n]*`|\]\([^)\s]*\)|<https?://[^>]*>|<!--.*?-->", re.MULTILINE | re.DOTALL
)


def of_page(path: str, text: str) -> Iterator[WordFound]:
    """The private words of a Markdown page; code, and where a link leads, is not looked at."""
    prose = _CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return (WordFound(path, line + 1, word, to) for line, word, to in in_prose(prose))


@cache
def all_found() -> tuple[WordFound, ...]:
    """Every private word that still stands somewhere."""
    found: list[WordFound] = []
    for folder in LOOKED_AT:
        for file in sorted((ROOT / folder).rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix not in {".py", ".md"} or path.startswith(LEFT_OUT):
                continue
            found += (WordFound(path, 0, f"{part} in the file's name", to) for part, to in in_name(file.stem))
            of_file = of_module if file.suffix == ".py" else of_page
            text = file.read_text(encoding="utf-8")
            if path.startswith(DECISIONS) and file.name != "README.md":
                text = text.partition("\n")[0]
            found += of_file(path, text)
    return tuple(found)


if __name__ == "__main__":
    for each in all_found():
        if each.path.startswith(tuple(folder.removeprefix("./") for folder in sys.argv[1:]) or ""):
            sys.stdout.write(f"{each.path}:{each.line}: {each.word} -> {each.instead}\n")
