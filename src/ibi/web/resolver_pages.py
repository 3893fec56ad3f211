"""The pages of a resolver as HTML in the reader's language: front page, status, alerts, explanations, identifiers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.peeling import peel
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.alerts import MOST_SILENT, Kind
from ibi.resolver.explanation import FIRST_ASKED, PERSISTENCE
from ibi.resolver.status import STANDINGS
from ibi.resolver.status import moment as stamp
from ibi.resolver.testimony import WORDS
from ibi.texts import say
from ibi.web.rendering import html, sayer
from ibi.web.wording import language_name

if TYPE_CHECKING:
    from ibi.identifier.forms import Name
    from ibi.resolver.alerts import Alert
    from ibi.resolver.explanation import Explanation
    from ibi.resolver.registration_page import RegistrationPage
    from ibi.resolver.status import Status

PEELINGS: Final = {
    "resolver address": "the address of a resolver",
    "archive address": "the address of an Archive",
    "url scheme": "a URL scheme",
    "archive path": "a path of an Archive",
    "cgi wrapper": "a program of an Archive",
    "upn": "a uniform persistent name",
    "ibi scheme": "the scheme ibi:",
    "relative path": "a relative path",
    "query parameter": "a query parameter",
    "wrapper site": "the link of another site",
    "report code": "a report code",
    "fragment": "a fragment",
    "punctuation": "punctuation",
    "words": "words around it",
    "invisible characters": "invisible characters",
    "entity": "an HTML entity",
    "percent encoding": "percent encoding",
    "blanks": "blanks",
    "line break": "a line break",
}
"""What can stand around an identifier, as a person calls it."""

FORMS: Final = {
    "rep": "uniform repository name",
    "ibip": "IBIp, the opaque form",
    "legacy": "opaque identifier from before the standard",
}
"""The forms of identifiers, as a person calls them."""

MOST_MEMBERS: Final = 200
"""Archives on the page of the status: those that give no answer first; programs are told all."""

MOST_CONCERNED: Final = 10
"""Archives that an alert is about and that its page names; programs are told all."""

MOST_OPEN: Final = 8
"""Lines of what each Archive said that are seen at once; more of them unfold."""

_SEARCH_AGAIN: Final = frozenset({Kind.BAD_URL, Kind.NOT_FOUND, Kind.NO_SUCH_PAGE})
"""Alerts where another try with another spelling makes sense."""


class Found(NamedTuple):
    """An identifier found in a text, the path of its persistent URL, and what was taken off around it."""

    ibi: str
    path: str
    form: str
    date: str | None
    peeled: tuple[tuple[str, str], ...]


def home(network: Status, language: str) -> bytes:
    """The front page, with a box to put an identifier in, and how the network stands in one line."""
    return html("home.html", language, line=network.line(sayer(language)))


def status(network: Status, language: str) -> bytes:
    """How the network stands, Archive by Archive."""
    order = ("silent", "not asked", "heard")
    members = sorted(network.members, key=lambda member: order.index(member.standing))
    return html(
        "status.html",
        language,
        line=network.line(sayer(language)),
        status=network,
        shown=members[:MOST_MEMBERS],
        more=max(0, len(members) - MOST_MEMBERS),
        standings=STANDINGS,
        stamp=stamp,
    )


def alert(value: Alert, language: str) -> bytes:
    """An alert (RES-13): what was asked, what Archives said, and how to go on."""
    said = sayer(language)
    title, advice = value.title(said), value.advice
    silent = value.round.silent if value.round and not value.testimony else ()
    return html(
        "alert.html",
        language,
        alert=value,
        title=title,
        detail=value.sentences(said)[0],
        caret=_caret(value.problem),
        wanted=advice.wish.words(said, partial(language_name, language=language)) if advice else [],
        letter=advice.letter(title, said) if advice else "",
        silent=silent[:MOST_SILENT],
        more_silent=max(0, len(silent) - MOST_SILENT),
        words=WORDS,
        most_open=MOST_OPEN,
        most_concerned=MOST_CONCERNED,
        may_search=value.kind in _SEARCH_AGAIN,
    )


def explanation(story: Explanation, language: str) -> bytes:
    """How a resolution came about, round by round."""
    said = sayer(language)
    return html(
        "explain.html",
        language,
        story=story,
        title=story.alert.title(said) if story.alert else "",
        sentences=story.alert.sentences(said) if story.alert else [],
        words=WORDS,
        first_asked=FIRST_ASKED,
        persistence=PERSISTENCE,
    )


def find(text: str, language: str) -> bytes:
    """What identifier a text of a person is about, what was around it, and the link that leads to its item."""
    found, problem = None, None
    if text.strip():
        try:
            found = _found(text)
        except ParseError as error:
            problem = error
    return html(
        "find.html",
        language,
        asked=text,
        found=found,
        problem=say(problem, language) if problem else "",
        caret=_caret(problem),
        suggestion=problem.suggestion if problem else None,
    )


def registration(page: RegistrationPage, language: str) -> bytes:
    """The form with which an Archive applies for registration, and its key once that has gone well (REG-01)."""
    return html(
        "register.html",
        language,
        fields=page.fields,
        problem=say(page.problem, language) if page.problem else "",
        key=page.key,
    )


def _caret(problem: ParseError | None) -> list[str] | None:
    """A faulty text and the marks under its fault; None where there is nothing to point at."""
    return problem.caret().split("\n", 1) if problem is not None and problem.text.strip() else None


def _found(text: str) -> Found:
    peeled = peel(text)
    path = f"/{peeled.ibi}{peeled.after}"
    try:
        PersistentURL.from_text(path)
    except ParseError:
        path = f"/{peeled.ibi}"
    pieces = tuple((PEELINGS[kind], piece) for kind, piece in peeled.peelings)
    return Found(str(peeled.ibi), path, FORMS[_form(peeled.ibi)], peeled.ibi.date.text, pieces)


def _form(name: Name) -> str:
    if isinstance(name, UniformRepositoryName):
        return "rep"
    return "ibip" if isinstance(name, IBIp) else "legacy"
