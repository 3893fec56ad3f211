"""The resolver's own pages: front page, status, search; and every alert in the form that the request accepts.

HTML is written by `Pages`; without it, everything is plain text or JSON.
"""

from __future__ import annotations

import json as json_text
from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError
from ibi.http.request import hosts_of
from ibi.http.response import HTML, JSON, NO_STORE, PLAIN, PROBLEM, Response, link
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.persistent_url import persistent_path
from ibi.protocol.query_string import read_query
from ibi.protocol.vocabulary import INCOMPLETE
from ibi.resolver.members.status import STATUS_SECONDS
from ibi.resolver.model.alert import Alert, AlertKind, in_english
from ibi.resolver.model.statements import roots_of
from ibi.resolver.pages.alert_details import (
    ResponsibleArchives,
    responsible_of,
    with_absences,
    with_responses,
    with_suggestions,
)
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.pages.page_language import page_language
from ibi.resolver.pages.programs import (
    ABOUT,
    METADATA_QUERY,
    ProgramRequest,
    about,
    metadata,
    program_pages,
    program_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.errors import IbiError
    from ibi.http.public_url import PublicURL
    from ibi.http.request import Form, Request
    from ibi.http.response import Headers
    from ibi.resolver.members.status import NetworkMonitor, NetworkStatus, Readiness
    from ibi.resolver.model.alert import Say
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.model.suggestion import Responsible
    from ibi.resolver.pages.page_language import PageLanguage
    from ibi.resolver.registry.published_list import Publisher
    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.resolve.resolution import Redirect, UpstreamRedirect
    from ibi.resolver.resolve.resolver import Trace
    from ibi.runtime.settings import ResolverSettings


@dataclass(frozen=True, slots=True)
class RegistrationPage:
    """The form as it was filled in; what is wrong with it; or the key, for the one time that it is shown.

    `field`: the one that the problem is about, "" for none; `closed`: Archives cannot apply here.
    """

    fields: Mapping[str, str]
    problem: IbiError | None = None
    field: str = ""
    closed: bool = False
    key: str = ""
    status: int = 200
    retry_after: int | None = None


_OF_A_LINK: Final = frozenset(
    {
        "resolver address",
        "ibi scheme",
        "url scheme",
        "invisible characters",
        "percent encoding",
        "relative path",
    }
)
"""Kinds of text around an identifier that make no citation of it."""
_HOME: Final = "/"
_STATUS: Final = "/-/status"
_FOR_A_MOMENT: Final = (("cache-control", f"public, max-age={int(STATUS_SECONDS)}"),)


@dataclass(frozen=True, slots=True)
class Pages:
    """The functions that write values as HTML, in one of our languages; `ibi.web` has them."""

    home: Callable[[NetworkStatus, str, PageLanguage], bytes]
    """(status of the network, language) -> HTML."""
    programs: Callable[[str, str, PageLanguage], bytes]
    """(root of its URLs, name of an item or "", language) -> HTML."""
    about: Callable[[Mapping[str, Any], PageLanguage], bytes]
    """(facts about the resolver, language) -> HTML."""
    status: Callable[[NetworkStatus, PageLanguage], bytes]
    alert: Callable[[Alert, Mapping[str, Responsible], PageLanguage], bytes]
    """(alert, the included Archives by the names of their services, language) -> HTML."""
    explanation: Callable[[Explanation, Mapping[str, Responsible], PageLanguage], bytes]
    """(explanation, Archives as above, language) -> HTML."""
    find: Callable[[str, PageLanguage], bytes]
    """(text of a person, language) -> HTML."""
    registration: Callable[[RegistrationPage, PageLanguage], bytes]
    headers: Callable[[str, str], Sequence[tuple[bytes, bytes]]]
    """(content type, language) -> headers of every page: security policy, language, ..."""
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
        public_url: PublicURL,
        pages: Pages | None,
        readiness: Readiness,
        publisher: Publisher | None = None,
        *,
        now: Callable[[], float],
        network: NetworkMonitor | None = None,
    ) -> None:
        self._settings = settings
        self._public = public_url
        self._hosts = hosts_of(settings.addresses)
        self._registry = registry
        self._pages = pages
        self._publisher = publisher
        self._now = now
        self._network = network
        self._included: tuple[Archive, ...] = ()
        self._responsibles = ResponsibleArchives()
        self._routes: dict[str, Callable[[Request], Response | None]] = {
            **program_pages(settings, public_url, publisher, now),
            ABOUT: self._about,
            "/-/readyz": lambda _: readiness.answer(),
            "/-/find": self._find,
            "/-/programs": self._programs,
        }
        self.paths = frozenset({_HOME, "/sitemap.xml", *self._routes})
        """Paths that by agreement are no persistent URLs (note 13: paths that are no persistent URLs), as is all
        below /-/ and /.well-known/."""

    async def page(self, request: Request) -> Response:
        """Answer a path that the site owns."""
        if request.path in {_HOME, _STATUS} and self._network is not None:
            status = await self._network.status()
            return self._home(request, status) if request.path == _HOME else self._status(request, status)
        handler = self._routes.get(request.path)
        response = handler(request) if handler is not None else None
        return response if response is not None else self.alert(request, Alert(AlertKind.NO_SUCH_PAGE))

    def program_request(self, request: Request) -> ProgramRequest | Response | None:
        """Read a request about an item by another protocol (`programs`); None for all others."""
        say = self.say(request)
        return program_request(request, say, lambda alert: self.alert(request, alert), self._hosts)

    def alert(self, request: Request, alert: Alert) -> Response:
        """Answer with an alert: HTML for browsers, problem+json where JSON is accepted, otherwise plain text."""
        if isinstance(request, ProgramRequest):
            return request.respond(alert)
        alert = self._advised(alert, {} if alert.statements is None else alert.statements.roots)
        response = self.in_form(
            request,
            lambda pages, language: pages.alert(alert, self._named(), language),
            alert.problem_json,
            alert.text,
            status=alert.status,
            json_type=PROBLEM,
        )
        if alert.kind is AlertKind.WRONG_METHOD:
            response = response.having(("allow", "GET, HEAD"))
        if alert.retry_after is not None:
            response = response.having(("retry-after", str(alert.retry_after)))
        alternates = [link(url, "alternate", language) for language, url in alert.alternates]
        return response.having(("vary", "accept, accept-language"), *alternates)

    def in_form(
        self,
        request: Request,
        html: Callable[[Pages, PageLanguage], bytes],
        json: Callable[[Say], bytes],
        text: Callable[[Say], bytes],
        *,
        form: Form | None = None,
        status: int = 200,
        json_type: str = JSON,
        caching: Headers = NO_STORE,
    ) -> Response:
        """Answer in the form that the request accepts, or in `form`.

        `html` makes the body from (pages, language), `json` and `text` from the sentences of a language.
        """
        form, language = form or request.form, page_language(request, self.paths)
        if form == "html" and self._pages is not None:
            return _page(self._pages, language, html, status, caching)
        say = self._say(language.language)
        if form == "json":
            return Response(status, json(say), json_type, caching)
        return Response(status, text(say), PLAIN, caching)

    def say(self, request: Request) -> Say:
        """Return the sentences of a reader's language."""
        return self._say(page_language(request, self.paths).language)

    def bad_url(self, request: Request, error: ParseError, path: str) -> Response:
        """Answer 400: the caret under the fault, and what was probably meant (note 21)."""
        try:
            proposals: tuple[str, ...] = (f"{self._public.of(request)}{persistent_path(path)}",)
        except ParseError as hopeless:
            near = hopeless.suggestion
            proposals = (f"{self._public.of(request)}/{near}",) if near else ()
        return self.alert(request, Alert(AlertKind.BAD_URL, url=path, problem=error, proposals=proposals))

    def resolution_alert(self, request: Request, alert: Alert, trace: Trace) -> Response:
        """Answer with the alert of a resolution, and what each Archive answered (RES-13: the fitting alert)."""
        return self.alert(request, with_responses(alert, Explanation(alert, trace)))

    def explanation(
        self, request: Request, decision: Redirect | UpstreamRedirect | Alert, trace: Trace, form: Form
    ) -> Response:
        """Answer with an explanation; headers tell the status that a reader gets (`ibi-outcome`), and more."""
        explained = Explanation(decision, trace)
        if isinstance(request, ProgramRequest):
            return request.respond(explained)
        if explained.alert is not None:
            roots = roots_of(each for one_round in explained.rounds for each in one_round.informative)
            explained.alert = self._advised(explained.alert, roots)
        response = self.in_form(
            request,
            lambda pages, language: pages.explanation(explained, self._named(), language),
            explained.json,
            explained.text,
            form=form,
        )
        silent, queried = explained.incomplete
        if explained.alert is None and silent:
            response = response.having((INCOMPLETE, f"{silent} of {queried}"))
        if explained.alert is not None and explained.alert.retry_after is not None:
            response = response.having(("retry-after", str(explained.alert.retry_after)))
        return response.having(("ibi-outcome", str(explained.status)), ("vary", "accept, accept-language"))

    def _advised(self, alert: Alert, roots: Mapping[str, str]) -> Alert:
        """Add suggestions how to go on to an alert; `roots`: the known roots of the URLs of Archives."""
        known = self._known()
        if alert.kind is AlertKind.INCOMPLETE:
            heard = self._network.heard_at if self._network is not None else lambda _: None
            alert = with_absences(alert, known, self._registry.away().values(), heard)
        return with_suggestions(alert, known, roots, self._now())

    def _named(self) -> Mapping[str, Responsible]:
        """Return the included Archives, and those that may be back, by the names of their services."""
        known, away = self._known().by_name, self._registry.away().values()
        return ChainMap(known, {each.archive.name: responsible_of(each.archive) for each in away})

    def _known(self) -> ResponsibleArchives:
        """Return the included Archives as readers may know them."""
        # The addresses of administrators are collected again only if the included Archives have changed.
        included = self._registry.archives()
        if included is not self._included:
            self._included = included
            self._responsibles = ResponsibleArchives(included)
        return self._responsibles

    def _home(self, request: Request, status: NetworkStatus) -> Response:
        root = self._public.of(request)

        def text(say: Say) -> bytes:
            where = f"A resolver of persistent URLs: {root}/<ibi>"
            return f"{where}\n{status.line(say)}\n".encode("utf-8", "replace")

        return self.in_form(
            request,
            lambda pages, language: pages.home(status, root, language),
            text,
            text,
            json_type=PLAIN,
            caching=_FOR_A_MOMENT,
        )

    def _about(self, request: Request) -> Response:
        """Answer who this resolver is: with a page for browsers, with JSON for all others."""
        if request.query == METADATA_QUERY:
            return metadata(self._settings, self._public.of(request))
        facts = about(self._settings, self._public.of(request), self._registry, self._publisher)

        def json(_: Say) -> bytes:
            return json_text.dumps(facts, indent=1).encode()

        form: Form = "html" if request.form == "html" else "json"
        response = self.in_form(
            request, lambda pages, language: pages.about(facts, language), json, json, form=form
        )
        return response.having(("vary", "accept, accept-language"))

    def _programs(self, request: Request) -> Response | None:
        """Show what programs can read here, by the service item of an Archive, which every Archive holds."""
        if self._pages is None:
            return None
        archives, root = self._registry.archives(), self._public.of(request)
        name = archives[0].name if archives else ""
        return _page(
            self._pages,
            page_language(request, self.paths),
            lambda pages, language: pages.programs(root, name, language),
        ).having(("vary", "accept-language"))

    def _status(self, request: Request, status: NetworkStatus) -> Response:
        response = self.in_form(
            request,
            lambda pages, language: pages.status(status, language),
            status.json,
            status.text,
            caching=_FOR_A_MOMENT,
        )
        return response.having(("vary", "accept, accept-language"))

    def _find(self, request: Request) -> Response:
        """Redirect from a text that a person has pasted to the persistent URL in it.

        Browsers get a page of what was recognised first, unless the text is an identifier or a link and nothing else.
        """
        try:
            # Bytes that are not UTF-8 become replacement characters, which a person can see and correct.
            pairs = dict(read_query(request.query))
            text = pairs.get("text", "").encode("latin-1").decode("utf-8", "replace").strip()
            language = page_language(request, self.paths)
            if self._pages is not None and request.form == "html" and not _is_only_a_name(text):
                return _page(self._pages, language, lambda pages, language: pages.find(text, language))
            return Response(303, headers=(("location", language.to(persistent_path(text))), *NO_STORE))
        except ParseError as error:
            return self.alert(request, Alert(AlertKind.BAD_URL, problem=error))

    def _say(self, language: str) -> Say:
        return self._pages.say(language) if self._pages is not None else in_english


def _is_only_a_name(text: str) -> bool:
    """Whether a text is an identifier, perhaps with what may stand around it in a link, and nothing else."""
    try:
        found = unwrap(text)
    except ParseError:
        return False
    return not found.others and all(each.kind in _OF_A_LINK for each in found.wrappers)


def _page(
    pages: Pages,
    language: PageLanguage,
    html: Callable[[Pages, PageLanguage], bytes],
    status: int = 200,
    caching: Headers = NO_STORE,
) -> Response:
    # The security policy of a page belongs to the templates, so `Pages` provides it, too.
    given = pages.headers(HTML, language.language)
    headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in given)
    return Response(status, html(pages, language), HTML, (*caching, *headers))
