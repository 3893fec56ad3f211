"""The resolver's own pages: front page, status, search; and every alert in the form that the request accepts.

HTML is written by `Pages`; without it, everything is plain text or JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError
from ibi.http.response import HTML, JSON, NO_STORE, PLAIN, PROBLEM, Response, link
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query
from ibi.resolver.members.status import STATUS_SECONDS
from ibi.resolver.model.alert import Alert, Kind, in_english
from ibi.resolver.model.suggestion import Responsible
from ibi.resolver.pages.alert_details import ResponsibleArchives, with_responses, with_suggestions
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.pages.programs import ProgramPages, ProgramRequest, program_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.errors import IbiError
    from ibi.http.request import Form, Request
    from ibi.http.response import Headers
    from ibi.resolver.members.status import NetworkMonitor, NetworkStatus, Readiness
    from ibi.resolver.model.alert import Say
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.registry.published_list import Publisher
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.resolution import Redirect, Redirected
    from ibi.resolver.resolve.trace import Trace
    from ibi.runtime.settings import ResolverSettings


@dataclass(frozen=True, slots=True)
class RegistrationPage:
    """The form as it was filled in; what is wrong with it; or the key, for the one time that it is shown."""

    fields: Mapping[str, str]
    problem: IbiError | None = None
    key: str = ""
    status: int = 200
    retry_after: int | None = None


_HOME: Final = "/"
_STATUS: Final = "/-/status"
_FOR_A_MOMENT: Final = (("cache-control", f"public, max-age={int(STATUS_SECONDS)}"),)


@dataclass(frozen=True, slots=True)
class Pages:
    """The functions that write values as HTML, in one of our languages; `ibi.web` has them."""

    home: Callable[[NetworkStatus, str], bytes]
    """(status of the network, language) -> HTML."""
    status: Callable[[NetworkStatus, str], bytes]
    alert: Callable[[Alert, str], bytes]
    explanation: Callable[[Explanation, str], bytes]
    find: Callable[[str, str], bytes]
    """(text of a person, language) -> HTML."""
    registration: Callable[[RegistrationPage, str], bytes]
    headers: Callable[[str, str], Sequence[tuple[bytes, bytes]]]
    """(content type, language) -> headers of every page: security policy, language, ..."""
    language: Callable[[Mapping[bytes, bytes]], str]
    """The reader's language from the headers of a request."""
    say: Callable[[str], Say]
    """The sentences of a language."""


class Site:
    """Answers everything at the resolver that is neither a persistent URL nor a service request.

    `now` returns POSIX seconds; without `network`, there is no status.
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
        network: NetworkMonitor | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._pages = pages
        self._now = now
        self._network = network
        self._included: tuple[Archive, ...] = ()
        self._responsibles = ResponsibleArchives()
        self._routes: dict[str, Callable[[Request], Response | None]] = {
            **ProgramPages(settings, registry, publisher, now).routes,
            "/-/readyz": lambda _: readiness.answer(),
            "/-/find": self._find,
        }
        self.paths = frozenset({_HOME, "/sitemap.xml", *self._routes})
        """Paths that are no persistent URLs by agreement (note 13), with all below /-/ and /.well-known/."""

    async def page(self, request: Request) -> Response:
        """Answer a path that the site owns."""
        if request.path in {_HOME, _STATUS} and self._network is not None:
            status = await self._network.status()
            return self._home(request, status) if request.path == _HOME else self._status(request, status)
        handler = self._routes.get(request.path)
        response = handler(request) if handler is not None else None
        return response if response is not None else self.alert(request, Alert(Kind.NO_SUCH_PAGE))

    def program_request(self, request: Request) -> ProgramRequest | Response | None:
        """Read a request about an item by another protocol (`programs`); None for all others."""
        return program_request(request, self.say(request), lambda alert: self.alert(request, alert))

    def alert(self, request: Request, alert: Alert) -> Response:
        """Answer with an alert: HTML for browsers, problem+json where JSON is accepted, otherwise plain text."""
        if isinstance(request, ProgramRequest):
            return request.respond(alert)
        alert = self._advised(alert)
        language = self._language(request)
        form = request.form
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
        self, request: Request, page: Callable[[Pages, str], bytes], status: int = 200
    ) -> Response | None:
        """Answer with HTML, made by `page` from (pages, language); None where the request does not accept it."""
        if self._pages is None or request.form != "html":
            return None
        language = self._language(request)
        return self._html(page(self._pages, language), language, status)

    def say(self, request: Request) -> Say:
        """Return the sentences of a reader's language."""
        return self._say(self._language(request))

    def bad_url(self, request: Request, error: ParseError, path: str) -> Response:
        """Answer 400: the caret under the fault, and what was probably meant (note 21)."""
        try:
            proposals: tuple[str, ...] = (f"http://{self._settings.address}{persistent_path(path)}",)
        except ParseError as hopeless:
            near = hopeless.suggestion
            proposals = (f"http://{self._settings.address}/{near}",) if near else ()
        return self.alert(request, Alert(Kind.BAD_URL, url=path, problem=error, proposals=proposals))

    def resolution_alert(self, request: Request, alert: Alert, trace: Trace) -> Response:
        """Answer with the alert of a resolution, and what each Archive answered (RES-13)."""
        return self.alert(request, with_responses(alert, Explanation(alert, trace)))

    def explanation(
        self, request: Request, decision: Redirect | Redirected | Alert, trace: Trace, form: Form
    ) -> Response:
        """Answer with an explanation; the header `ibi-outcome` is the status that a reader gets."""
        explained = Explanation(decision, trace)
        if isinstance(request, ProgramRequest):
            return request.respond(explained)
        if explained.alert is not None:
            explained.alert = self._advised(explained.alert)
        language = self._language(request)
        if form == "html" and self._pages is not None:
            response = self._html(self._pages.explanation(explained, language), language)
        elif form == "json":
            response = Response(200, explained.json(self._say(language)), JSON, NO_STORE)
        else:
            response = Response(200, explained.text(self._say(language)), PLAIN, NO_STORE)
        return response.having(("ibi-outcome", str(explained.status)), ("vary", "accept, accept-language"))

    def _advised(self, alert: Alert) -> Alert:
        """Add to an alert what helps to go on."""
        # The addresses of administrators are collected anew only when the set of included Archives is another one.
        included = self._registry.archives()
        if included is not self._included:
            self._included = included
            self._responsibles = ResponsibleArchives(
                Responsible(str(each.service_ibi), each.address, each.admin_mail) for each in included
            )
        return with_suggestions(alert, self._responsibles, self._now())

    def _home(self, request: Request, status: NetworkStatus) -> Response:
        if self._pages is not None and request.form == "html":
            language = self._language(request)
            return self._html(self._pages.home(status, language), language, caching=_FOR_A_MOMENT)
        where = f"A resolver of persistent URLs: http://{self._settings.address}/<ibi>"
        text = f"{where}\n{status.line(self.say(request))}\n"
        return Response(200, text.encode("utf-8", "replace"), PLAIN, _FOR_A_MOMENT)

    def _status(self, request: Request, status: NetworkStatus) -> Response:
        """Answer with the status: a page for browsers, JSON where that is accepted, else text."""
        say = self.say(request)
        if request.form == "json":
            response = Response(200, status.json(say), JSON, _FOR_A_MOMENT)
        elif request.form == "html" and self._pages is not None:
            language = self._language(request)
            response = self._html(self._pages.status(status, language), language, caching=_FOR_A_MOMENT)
        else:
            response = Response(200, status.text(say), PLAIN, _FOR_A_MOMENT)
        return response.having(("vary", "accept, accept-language"))

    def _find(self, request: Request) -> Response:
        """Redirect from a text that a person has pasted to the persistent URL in it."""
        try:
            # What is not UTF-8 is shown with replacement characters, not refused: a person can see and correct it.
            pairs = dict(read_query(request.query))
            text = pairs.get("text", "").encode("latin-1").decode("utf-8", "replace").strip()
            if self._pages is not None and request.form == "html":
                language = self._language(request)
                return self._html(self._pages.find(text, language), language)
            return Response(303, headers=(("location", persistent_path(text)), *NO_STORE))
        except ParseError as error:
            return self.alert(request, Alert(Kind.BAD_URL, problem=error))

    def _html(
        self, body: bytes, language: str, status: int = 200, *, caching: Headers = NO_STORE
    ) -> Response:
        # The security policy of a page belongs to the templates, so it comes from where these are.
        given = self._pages.headers(HTML, language) if self._pages is not None else ()
        headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in given)
        return Response(status, body, HTML, (*caching, *headers))

    def _language(self, request: Request) -> str:
        return self._pages.language(request.headers) if self._pages is not None else "en"

    def _say(self, language: str) -> Say:
        return self._pages.say(language) if self._pages is not None else in_english


def persistent_path(text: str) -> str:
    """Return path and query of the persistent URL that a text is or has in it. Raises ParseError if there is none."""
    # First as it stands: a text that is a persistent URL must not lose its query or its file by unwrapping.
    try:
        return PersistentURL.from_text(text.strip()).text
    except ParseError:
        found = unwrap(text)
    try:
        return PersistentURL.from_text(f"/{found.ibi}{found.after}").text
    except ParseError:
        return f"/{found.ibi}"
