"""What a resolver answers to programs: items by other protocols, and files about the resolver itself.

    /-/api/handles/<ibi>    what the item's Archive answered, as the proxy of the Handle System writes it; with ?all,
                            every Archive is asked, and every place of the item listed
    /-/timegate/<ibi>       redirects to the Archive that was chosen, which knows the editions (RFC 7089); also with
                            http://<address>/<ibi> in place of <ibi>
    /-/timemap/<ibi>        likewise
    /robots.txt  /-/healthz  /.well-known/...

An item is resolved as for an explanation: no acknowledgment is sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ParseError
from ibi.http import handle_records as shape
from ibi.http import memento
from ibi.http.handle_records import HandleValue, WantedValues
from ibi.http.request import Request
from ibi.http.response import JSON, NO_STORE, PLAIN, Response, link, visible
from ibi.http.well_known import CATALOG, SECURITY, Interface, catalog, security
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import unescape
from ibi.protocol.vocabulary import INCOMPLETE, REQUIRED_STATE, ContentType, ItemState
from ibi.resolver.api.openapi import PATH as OPENAPI
from ibi.resolver.api.openapi import document
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.pages.alert_details import with_responses
from ibi.resolver.resolve.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ibi.http.handle_records import Location
    from ibi.http.public_url import PublicURL
    from ibi.identifier.forms import Name
    from ibi.resolver.model.alert import Say
    from ibi.resolver.model.statements import ArchiveStatement
    from ibi.resolver.pages.explanation import Explanation
    from ibi.resolver.registry.published_list import Publisher
    from ibi.resolver.registry.registry import Registry
    from ibi.runtime.settings import ResolverSettings

    Responder = Callable[[Explanation | Alert], Response]


MEMENTO_PATHS: Final = ("/-/timegate/", "/-/timemap/")
NAME: Final = "{name}"
RESOLVER_LINKS: Final = memento.LINKS.format(
    original=f"{{root}}/{{{NAME}}}", base="{root}", name=f"{{{NAME}}}"
)
"""The links of a redirect to the gates of its item; after formatting with `root`, NAME stands for the item."""
ABOUT: Final = "/-/about"
"""Where the resolver describes itself."""
METADATA_QUERY: Final = "format=oai_dc"
METADATA: Final = f"{ABOUT}?{METADATA_QUERY}"
"""Where the metadata of the resolver's service are."""
EXPLAIN: Final = "/-/explain/"
"""What the paths of explanations begin with."""


@dataclass(slots=True)
class ProgramRequest(Request):
    """A request about an item by another protocol; `respond` makes the answer from its resolution."""

    respond: Responder = field(kw_only=True)


def program_request(
    request: Request, say: Say, alert: Callable[[Alert], Response], hosts: Collection[str]
) -> ProgramRequest | Response | None:
    """Read a request by another protocol; return a response if it is faulty, None for any other path.

    `alert` makes the response of an alert to this request; `hosts`: those of persistent URLs of this resolver.
    """
    base = next((base for base in (shape.PATH, *MEMENTO_PATHS) if request.path.startswith(base)), None)
    if base is None:
        return None
    raw = request.path.removeprefix(base)
    try:
        name = parse_name(unescape(raw)) if base == shape.PATH else memento.named_by(raw, hosts)
        wanted = WantedValues.read(request.query) if base == shape.PATH else WantedValues()
    except ParseError as error:
        if base == shape.PATH:
            return shape.handle_failure(400, raw, say(error.problem, error.details))
        return alert(Alert(AlertKind.BAD_URL, url=request.path, problem=error))
    respond = _handle_record(name, wanted, say) if base == shape.PATH else _memento(base, name, alert)
    path = f"{EXPLAIN}{name}"
    # Demanding the original makes the resolver ask every Archive, and wait for all of them.
    query = f"{REQUIRED_STATE}={ItemState.ORIGINAL}" if wanted.everywhere else ""
    return ProgramRequest(
        request.method, path, query, request.headers, request.addresses, request.peer, respond=respond
    )


def _handle_record(name: Name, wanted: WantedValues, say: Say) -> Responder:
    def respond(outcome: Explanation | Alert) -> Response:
        alert = outcome if isinstance(outcome, Alert) else outcome.alert
        # A removed item still has a record, with its state, because its name is never given to another item.
        removed = alert is not None and alert.kind is AlertKind.DELETED
        places = _places(outcome) if wanted.everywhere and not isinstance(outcome, Alert) else []
        if alert is not None and not removed and not places:
            later = () if alert.retry_after is None else (("retry-after", str(alert.retry_after)),)
            return shape.handle_failure(alert.status, str(name), alert.title(say), *later)
        if alert is not None and removed:
            gone = [HandleValue("IBI", str(name)), HandleValue("IBI_STATE", ItemState.DELETED.value)]
            gone += [HandleValue("IBI_ARCHIVE", archive) for archive in alert.archives[:1]]
            return shape.handle_record(str(name), gone, alert.timestamp, wanted)
        assert not isinstance(outcome, Alert)  # noqa: S101 - it has no alert, or places
        url, archive = (places[0].url, places[0].archive) if places else (outcome.location, outcome.archive)
        # Made of the URL list: a redirect fails at Archives of other software (decision 0024).
        source = _source(outcome, archive)
        there = [] if source is None else [link(f"{source.root}{shape.PATH}{name}", "alternate")]
        stamp = (source.answer.timestamp if source and source.answer else None) or ""
        values = [*_values(url, source), *([shape.locations(places)] if places else [])]
        silent, queried = outcome.incomplete
        there += [(INCOMPLETE, f"{silent} of {queried}")] if silent else []
        return shape.handle_record(str(name), values, stamp, wanted, *there)

    return respond


def _places(explanation: Explanation) -> list[Location]:
    """Return every place of an item; none if two Archives claim the original, since one is wrong (T05)."""
    alert = explanation.alert
    certain = alert is None or alert.kind in {AlertKind.NO_ORIGINAL, AlertKind.INCOMPLETE}
    return explanation.locations if certain else []


def _source(explanation: Explanation, archive: str) -> ArchiveStatement | None:
    """Return the answer of the Archive whose URL was chosen; None if another resolver gave the URL."""
    answers = explanation.rounds[-1].statements if explanation.rounds else []
    return next((each for each in answers if each.archive == archive and each.answer), None)


def _values(url: str, source: ArchiveStatement | None) -> Iterator[HandleValue]:
    yield HandleValue("URL", url)
    yield HandleValue("KernelInformationProfile", shape.PROFILE)
    yield HandleValue("digitalObjectLocation", url)
    answer = source.answer if source else None
    if source is None or answer is None:
        return
    yield HandleValue("IBI_ARCHIVE", source.archive)
    entry = answer.entry()
    forms = answer.forms
    for name in (forms.rep, forms.ibip) if forms else ():
        yield HandleValue("IBI", str(name) if name else "")
    yield HandleValue("IBI_STATE", entry.state.value if entry.state else "")
    yield HandleValue("digitalObjectType", (entry.content_type or ContentType.DATA).value)
    yield HandleValue("dateModified", entry.timestamp or "")
    yield HandleValue("dateCreated", (forms.main.date.text if forms else None) or "")


def _memento(base: str, name: Name, alert: Callable[[Alert], Response]) -> Responder:
    def respond(outcome: Explanation | Alert) -> Response:
        if isinstance(outcome, Alert):
            return alert(outcome)
        if outcome.alert is not None:
            return alert(with_responses(outcome.alert, outcome))
        # None for an UpstreamRedirect: a resolver itself knows no editions (decision 0024).
        source = _source(outcome, outcome.archive)
        if source is None:
            return alert(Alert(AlertKind.NO_SUCH_PAGE))
        where = ("location", visible(f"{source.root}{base}{name}"))
        vary = (("vary", "accept-datetime"),) if base == MEMENTO_PATHS[0] else ()
        return Response(302 if vary else 303, headers=(where, *vary, *NO_STORE))

    return respond


ROBOTS: Final = (
    b"# Persistent URLs may be followed: each leads to an Archive, whose own robots.txt holds there.\n"
    b"User-agent: *\n"
    b"Allow: /-/status\n"
    b"Allow: /-/about\n"
    b"Disallow: /-/\n"
)

_FOR_A_DAY: Final = (("cache-control", "public, max-age=86400"),)
_FOR_AN_HOUR: Final = (("cache-control", "public, max-age=3600"),)


def program_pages(
    settings: ResolverSettings,
    public_url: PublicURL,
    publisher: Publisher | None,
    now: Callable[[], float],
) -> dict[str, Callable[[Request], Response | None]]:
    """Return the handlers of the files that programs find at one resolver, by path. `now` returns POSIX seconds.

    A handler returns None if there is no such page after all.
    """
    description = document(registers=settings.registration == "form", publishes=publisher is not None)
    # Written once: it depends only on the settings, and a service is made anew when these change.
    openapi = Response(200, json.dumps(description, indent=1).encode(), JSON, _FOR_AN_HOUR)

    def interfaces(request: Request) -> Response:
        base = public_url.of(request)
        links = (
            ("service-desc", f"{base}{OPENAPI}", JSON),
            ("service-meta", f"{base}{ABOUT}", JSON),
            ("status", f"{base}/-/status", JSON),
        )
        return catalog(base, [Interface(f"{base}/", links)])

    return {
        "/robots.txt": lambda _: Response(200, ROBOTS, PLAIN, _FOR_A_DAY),
        "/favicon.ico": lambda _: Response(204, headers=_FOR_A_DAY),
        "/-/healthz": lambda _: Response(200, b"ok\n", PLAIN, NO_STORE),
        SECURITY: lambda _: security(settings.admin, now()),
        CATALOG: interfaces,
        OPENAPI: lambda _: openapi,
    }


_OAI_DC: Final = """<?xml version="1.0" encoding="UTF-8"?>
<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">
{titles}
  <dc:type>Service</dc:type>
  <dc:identifier>{root}/{service}</dc:identifier>
</oai_dc:dc>
"""


def _titles(address: str) -> dict[str, str]:
    """Return the title of a resolver's service, by language."""
    return {"en": f"Resolver service of {address}", "pt-BR": f"Serviço de resolução de {address}"}


def metadata(settings: ResolverSettings, root: str) -> Response:
    """Answer with the metadata of the service, as Dublin Core; `root`: that of its URLs."""
    titles = "\n".join(
        f'  <dc:title xml:lang="{language}">{title}</dc:title>'
        for language, title in _titles(escape(settings.address)).items()
    )
    body = _OAI_DC.format(titles=titles, root=escape(root), service=settings.service.main)
    return Response(200, body.encode(), "application/xml", _FOR_AN_HOUR)


def about(
    settings: ResolverSettings, root: str, registry: Registry, publisher: Publisher | None
) -> dict[str, Any]:
    """Return the facts about a resolver, as /-/about shows them; `root`: that of its URLs."""
    policy = Policy(strict=settings.policy == "strict")
    return {
        "role": "resolver",
        "title": _titles(settings.address)["en"],
        "service_ibi": str(settings.service.main),
        "service": str(settings.service),
        "address": settings.address,
        "aliases": list(settings.aliases),
        "public_url": root,
        "policy": policy.name,
        "differences": {difference.name: difference.sentence for difference in policy.differences},
        "admin": settings.admin or None,
        "attestation_key": publisher.key if publisher else None,
        "private_archives": settings.allow_private_archives,
        "archives": len(registry.archives()),
        "seconds": {"per_archive": settings.archive_seconds, "overall": settings.overall_seconds},
    }
