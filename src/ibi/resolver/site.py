"""The resolver's own pages: front page, status, search; and every alert in the form that suits the reader.

HTML comes from above (`Pages`); without it, everything is said in plain text or JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError
from ibi.exchange import HTML, JSON, NO_STORE, PLAIN, PROBLEM, Response, link
from ibi.identifier.peeling import peel
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query
from ibi.resolver.advice import Responsible
from ibi.resolver.advising import Responsibles, advised
from ibi.resolver.alerts import Alert, Kind, in_english
from ibi.resolver.callers import Caller, caller
from ibi.resolver.for_programs import ForPrograms
from ibi.resolver.status import LOOK_EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.exchange import Form, Headers
    from ibi.resolver.alerts import Say
    from ibi.resolver.explanation import Explanation
    from ibi.resolver.mirror import Publisher
    from ibi.resolver.readiness import Readiness
    from ibi.resolver.registration_page import RegistrationPage
    from ibi.resolver.registry import IncludedArchive, Registry
    from ibi.resolver.status import Board, Status
    from ibi.resolver.visitor import Visitor
    from ibi.settings import ResolverSettings

_HOME: Final = "/"
_STATUS: Final = "/-/status"
_FOR_A_MOMENT: Final = (("cache-control", f"public, max-age={int(LOOK_EVERY)}"),)


@dataclass(frozen=True, slots=True)
class Pages:
    """How values become pages for eyes, in one of the languages that the house writes; given from above."""

    home: Callable[[Status, str], bytes]
    """(how the network stands, language) -> HTML."""
    status: Callable[[Status, str], bytes]
    alert: Callable[[Alert, str], bytes]
    explanation: Callable[[Explanation, str], bytes]
    find: Callable[[str, str], bytes]
    """(text of a person, language) -> HTML."""
    registration: Callable[[RegistrationPage, str], bytes]
    headers: Callable[[str, str], Sequence[tuple[bytes, bytes]]]
    """(content type, language) -> what belongs to every page: security policy, language, ..."""
    language: Callable[[Mapping[bytes, bytes]], str]
    """The reader's language from the headers of a request."""
    say: Callable[[str], Say]
    """The sentences of a language."""


class Site:
    """Answers everything at the resolver that is neither a persistent URL nor a service request.

    `now` gives POSIX seconds; `board` tells how the network stands, without it nothing is told of that.
    """

    def __init__(
        self,
        settings: ResolverSettings,
        registry: Registry,
        pages: Pages | None,
        readiness: Readiness,
        publisher: Publisher | None = None,
        *,
        now: Callable[[], float],
        board: Board | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._pages = pages
        self._now = now
        self._board = board
        self._included: tuple[IncludedArchive, ...] = ()
        self._known = Responsibles()
        self._doors: dict[str, Callable[[Visitor], Response | None]] = {
            **ForPrograms(settings, registry, publisher, now).doors,
            "/-/readyz": lambda _: readiness.answer(),
            "/-/find": self._find,
        }

    def owns(self, path: str) -> bool:
        """Whether a path is no persistent URL by agreement (note 13)."""
        ours = path in self._doors or path in {_HOME, "/sitemap.xml"}
        return ours or path.startswith(("/-/", "/.well-known/"))

    async def page(self, visitor: Visitor) -> Response:
        """The page at a path that the site owns."""
        if visitor.path in {_HOME, _STATUS} and self._board is not None:
            status = await self._board.look()
            return self._home(visitor, status) if visitor.path == _HOME else self._status(visitor, status)
        door = self._doors.get(visitor.path)
        found = door(visitor) if door is not None else None
        return found if found is not None else self.alert(visitor, Alert(Kind.NO_SUCH_PAGE))

    def caller(self, visitor: Visitor) -> Caller | Response | None:
        """Whoever asks about an item in the manner of another system (`callers`); None for all others."""
        return caller(visitor, self.say(visitor), lambda alert: self.alert(visitor, alert))

    def alert(self, visitor: Visitor, alert: Alert) -> Response:
        """An alert: HTML for browsers, problem+json where JSON is accepted, otherwise plain text."""
        if isinstance(visitor, Caller):
            return visitor.told(alert)
        alert = self._advised(alert)
        language = self._language(visitor)
        form = visitor.form
        if form == "html" and self._pages is not None:
            response = self._html(self._pages.alert(alert, language), language, alert.status)
        elif form == "json":
            response = Response(alert.status, alert.problem_json(self._say(language)), PROBLEM, NO_STORE)
        else:
            response = Response(alert.status, alert.text(self._say(language)), PLAIN, NO_STORE)
        if alert.kind is Kind.WRONG_METHOD:
            response = response.having(("allow", "GET, HEAD"))
        if alert.retry_after is not None:
            response = response.having(("retry-after", str(alert.retry_after)))
        alternates = [link(url, "alternate", language) for language, url in alert.alternates]
        return response.having(("vary", "accept, accept-language"), *alternates)

    def shown(
        self, visitor: Visitor, page: Callable[[Pages, str], bytes], status: int = 200
    ) -> Response | None:
        """A page for eyes, made of (pages, language); None for a reader who wants none, or where there are none."""
        if self._pages is None or visitor.form != "html":
            return None
        language = self._language(visitor)
        return self._html(page(self._pages, language), language, status)

    def say(self, visitor: Visitor) -> Say:
        """The sentences of a reader's language."""
        return self._say(self._language(visitor))

    def bad_url(self, visitor: Visitor, error: ParseError, path: str) -> Response:
        """400: the caret under the fault, and what was probably meant (note 21)."""
        try:
            proposals: tuple[str, ...] = (f"http://{self._settings.address}{persistent_path(path)}",)
        except ParseError as hopeless:
            near = hopeless.suggestion
            proposals = (f"http://{self._settings.address}/{near}",) if near else ()
        return self.alert(visitor, Alert(Kind.BAD_URL, url=path, problem=error, proposals=proposals))

    def explanation(self, visitor: Visitor, story: Explanation, form: Form) -> Response:
        """How a resolution came about; the header `ibi-outcome` is the status that a reader gets."""
        if isinstance(visitor, Caller):
            return visitor.told(story)
        if story.alert is not None:
            story.alert = self._advised(story.alert)
        language = self._language(visitor)
        if form == "html" and self._pages is not None:
            response = self._html(self._pages.explanation(story, language), language)
        elif form == "json":
            response = Response(200, story.json(self._say(language)), JSON, NO_STORE)
        else:
            response = Response(200, story.text(self._say(language)), PLAIN, NO_STORE)
        return response.having(("ibi-outcome", str(story.status)), ("vary", "accept, accept-language"))

    def _advised(self, alert: Alert) -> Alert:
        """An alert with what helps to go on."""
        included = self._registry.archives()
        if included is not self._included:
            self._included = included
            self._known = Responsibles(
                Responsible(str(each.service_ibi), each.address, each.admin_mail) for each in included
            )
        return advised(alert, self._known, self._now())

    def _home(self, visitor: Visitor, status: Status) -> Response:
        if self._pages is not None and visitor.form == "html":
            language = self._language(visitor)
            return self._html(self._pages.home(status, language), language, kept=_FOR_A_MOMENT)
        where = f"A resolver of persistent URLs: http://{self._settings.address}/<ibi>"
        text = f"{where}\n{status.line(self.say(visitor))}\n"
        return Response(200, text.encode("utf-8", "replace"), PLAIN, _FOR_A_MOMENT)

    def _status(self, visitor: Visitor, status: Status) -> Response:
        """How the network stands: a page for browsers, JSON where that is accepted, else text."""
        say = self.say(visitor)
        if visitor.form == "json":
            response = Response(200, status.json(say), JSON, _FOR_A_MOMENT)
        elif visitor.form == "html" and self._pages is not None:
            language = self._language(visitor)
            response = self._html(self._pages.status(status, language), language, kept=_FOR_A_MOMENT)
        else:
            response = Response(200, status.text(say), PLAIN, _FOR_A_MOMENT)
        return response.having(("vary", "accept, accept-language"))

    def _find(self, visitor: Visitor) -> Response:
        """From whatever a person has pasted to the persistent URL in it."""
        try:
            pairs = dict(read_query(visitor.query))
            text = pairs.get("text", "").encode("latin-1").decode("utf-8", "replace").strip()
            if self._pages is not None and visitor.form == "html":
                language = self._language(visitor)
                return self._html(self._pages.find(text, language), language)
            return Response(303, headers=(("location", persistent_path(text)), *NO_STORE))
        except ParseError as error:
            return self.alert(visitor, Alert(Kind.BAD_URL, problem=error))

    def _html(self, body: bytes, language: str, status: int = 200, *, kept: Headers = NO_STORE) -> Response:
        given = self._pages.headers(HTML, language) if self._pages is not None else ()
        headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in given)
        return Response(status, body, HTML, (*kept, *headers))

    def _language(self, visitor: Visitor) -> str:
        return self._pages.language(visitor.headers) if self._pages is not None else "en"

    def _say(self, language: str) -> Say:
        return self._pages.say(language) if self._pages is not None else in_english


def persistent_path(text: str) -> str:
    """The path and query of the persistent URL that a text is or has in it. Raises ParseError if there is none."""
    try:
        return PersistentURL.from_text(text.strip()).text
    except ParseError:
        found = peel(text)
    try:
        return PersistentURL.from_text(f"/{found.ibi}{found.after}").text
    except ParseError:
        return f"/{found.ibi}"
