"""The form with which Archives apply for registration: /-/register (REG-01: registration; T41: forged registrations).

GET    a form
POST   service_ibi, address, mail, title, title_pt, name, hosts (application/x-www-form-urlencoded)
       the Archive must confirm at its address at this moment; then its key is shown, once
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import parse_qsl, urlsplit

from ibi.api.fields import Fields, described, read_texts
from ibi.api.fields import field as field_of
from ibi.errors import BadField, ForbiddenAddress, IbiError, ParseError, SetupError
from ibi.http.limits.window import FailureLimit, unblocked
from ibi.http.response import Response
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import LONGEST_TITLE, ArchiveTitles, checked_title
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.pages.site import RegistrationPage
from ibi.runtime.settings.rules import is_mail_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.http.limits.window import Failures
    from ibi.http.request import Request
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.confirmation import ConfirmationClient
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.model.alert import Say
    from ibi.resolver.pages.site import Site
    from ibi.resolver.registry.registry import Registry
    from ibi.runtime.settings import ResolverSettings

PATH: Final = "/-/register"
"""Where Archives apply."""

LARGEST_BODY: Final = 8_192
"""Bytes of a form."""

APPLICATIONS: Final = FailureLimit("application from", 10, 3_600.0)
"""How many forms one source may send."""

MOST_HOSTS: Final = 20
"""Hosts that one application may name."""

_REGISTERED: Final = (
    "this Archive is registered here already; if its key is lost, "
    "the administrator of this resolver gives it a new one"
)
_WAITS: Final = (
    "this Archive has applied already, with a key that was shown then, "
    "and waits for the administrator of this resolver"
)
_TOO_MANY_WAIT: Final = (
    "too many Archives wait for a decision; try again in some days, "
    "or write to the administrator of this resolver"
)
_CONCURRENT: Final = 4  # applications whose Archives are asked at the same time


class ApplicationFields(Fields, frozen=True):
    """What an Archive says of itself; no operation, since strangers apply, and the Archive must confirm."""

    service_ibi: Annotated[str, field_of("the IBI of the Archive's service", longest=512)]
    address: Annotated[str, field_of("its address, such as archive.example.org:8080", longest=256)]
    mail: Annotated[str, field_of("the mail address of its administrator", longest=254)]
    title: Annotated[str, field_of("what readers call it", longest=LONGEST_TITLE)] = ""
    title_pt: Annotated[
        str, field_of("what they call it in Portuguese, if it differs", longest=LONGEST_TITLE)
    ] = ""
    name: Annotated[str, field_of("the name of its administrator", longest=100)] = ""
    hosts: Annotated[str, field_of("redirects to its items lead to these hosts only", longest=512)] = ""


_FIELDS: Final = tuple(each.name for each in described(ApplicationFields))
_HOWTO: Final = (
    "POST service_ibi, address, mail, title, title_pt, name, hosts (application/x-www-form-urlencoded)"
)


@dataclass(frozen=True, slots=True)
class RegistrationHandler:
    """Answers at /-/register, if the settings allow it; mails each application to the administrator.

    Until an application is approved, its Archive is not asked for items, and its requests are refused.
    """

    _settings: ResolverSettings
    _registry: Registry
    _confirmation: ConfirmationClient
    _throttle: Failures
    _evidence: Evidence
    _mail: MailSender
    _site: Site
    # Every client may apply, and each application makes this resolver open a connection to an address of the
    # applicant's choice: no more than a few at a time (T41: forged registrations).
    _semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT), init=False)

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer GET, HEAD or POST; `body` is that of a POST, at most LARGEST_BODY bytes."""
        if self._settings.registration != "form":
            if request.reads and request.form == "html":
                return self._response(request, RegistrationPage({}, closed=True, status=404))
            return self._site.alert(request, Alert(AlertKind.NO_SUCH_PAGE))
        if request.reads:
            return self._response(request, RegistrationPage(dict.fromkeys(_FIELDS, "")))
        if request.method != "POST":
            return self._site.alert(request, Alert(AlertKind.WRONG_METHOD)).having(
                ("allow", "GET, HEAD, POST")
            )
        return self._response(request, await self._post(request, read_form(body)))

    async def _post(self, request: Request, fields: dict[str, str] | None) -> RegistrationPage:
        """Check a form that was sent, and apply; `fields` is None where it cannot be read."""
        page = RegistrationPage(fields or dict.fromkeys(_FIELDS, ""))
        if not _is_same_origin(request):
            return replace(page, problem=IbiError("the form was sent from another site"), status=403)
        kind = request.header(b"content-type").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded" or fields is None:
            return replace(page, problem=IbiError("this is not the form that was expected"), status=415)
        client = request.client_key
        wait = await unblocked(self._throttle, self._count, client)
        if wait:
            problem = IbiError("too many applications came from there; please try again later")
            return replace(page, problem=problem, status=429, retry_after=wait + 1)
        return await self._apply(page)

    def _count(self, client: str) -> int:
        """Count an application; return the seconds to wait, 0 if it is counted and may go on."""
        wait = int(self._throttle.wait(APPLICATIONS, client))
        if not wait:
            # Counted whatever comes of it: each form makes this resolver call an address that the sender chose.
            self._throttle.record_failure(APPLICATIONS, client)
        return wait

    async def _apply(self, page: RegistrationPage) -> RegistrationPage:
        """Store an application whose Archive confirms just now; return the page with its key or a problem."""
        address = page.fields["address"]
        try:
            fields = read_texts(ApplicationFields, {name: [text] for name, text in page.fields.items()})
            ibi, hosts = _checked(fields)
            async with self._semaphore:
                await self._require_confirmation(ibi, address)
                key = await asyncio.to_thread(self._store, ibi, fields, hosts)
        except (BadField, ParseError) as error:
            return replace(page, problem=error, field=_field_of(error), status=422)
        except ForbiddenAddress:
            # Without the reason, which would show strangers where names lead in the network of this resolver.
            problem = IbiError("no Archive can be at this address")
            return replace(page, problem=problem, field="address", status=422)
        except SetupError as error:
            return replace(page, problem=error, status=503, retry_after=5)
        if key is None:
            return await asyncio.to_thread(self._conflict, page, ibi)
        self._mail.applied(ibi, address, self._settings.admin)
        return replace(page, key=key)

    async def _require_confirmation(self, ibi: IBI, address: str) -> None:
        """Ask an Archive whether it is there. Raises ForbiddenAddress, and BadField if it does not confirm."""
        self._confirmation.check(ibi, address)
        if not await self._confirmation.confirms(ibi, address):
            sentence = "the Archive does not confirm at {address}: it must be switched on and reachable there"
            raise BadField(sentence, name="address", address=address)

    def _store(self, ibi: IBI, fields: ApplicationFields, hosts: Sequence[str]) -> str | None:
        """Store an application; return its key, None if it is refused. Raises ParseError, SetupError."""
        name = "".join(char if char.isprintable() else " " for char in fields.name)
        record = partial(self._evidence.write, "registered", ibi=str(ibi), by="form")
        titles = ArchiveTitles(checked_title(fields.title), checked_title(fields.title_pt))
        return self._registry.apply(ibi, fields.address, fields.mail, name, hosts, record, titles=titles)

    def _conflict(self, page: RegistrationPage, ibi: IBI) -> RegistrationPage:
        """Say why an application was not taken: the Archive is known already, or too many others wait."""
        known = self._registry.entry(ibi)
        if known is None:
            return replace(page, problem=IbiError(_TOO_MANY_WAIT), status=409)
        problem = IbiError(_WAITS if known.applied else _REGISTERED)
        return replace(page, problem=problem, field="service_ibi", status=409)

    def _response(self, request: Request, page: RegistrationPage) -> Response:
        """Write a page in the form that the request accepts; never cached, since it may have a key in it."""

        def as_json(say: Say) -> bytes:
            answer = {"service_ibi": page.fields.get("service_ibi", ""), "key": page.key}
            if page.problem is not None:
                answer = {"problem": say(page.problem.problem, page.problem.details)}
            return json.dumps(answer).encode()

        def text(say: Say) -> bytes:
            problem = say(page.problem.problem, page.problem.details) if page.problem else ""
            return f"{problem or page.key or _HOWTO}\n".encode()

        response = self._site.in_form(
            request,
            lambda pages, language: pages.registration(page, language),
            as_json,
            text,
            status=page.status,
        )
        later = () if page.retry_after is None else (("retry-after", str(page.retry_after)),)
        # With "no-referrer", browsers would send the form with `Origin: null`, and it would be refused as another
        # site's. Of headers set twice, the first counts.
        return replace(response, headers=(("referrer-policy", "same-origin"), *response.headers, *later))


def _field_of(error: BadField | ParseError) -> str:
    """Return the field of the form that an error is about."""
    if isinstance(error, BadField):
        return str(error.details["name"])
    return {"host": "hosts", "address": "address"}.get(error.what, "service_ibi")


def read_form(body: bytes) -> dict[str, str] | None:
    """Read the fields of a form, each once; None for anything else."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=len(_FIELDS)
        )
    except ValueError:
        return None
    fields = dict(pairs)
    if len(fields) < len(pairs) or not fields.keys() <= set(_FIELDS):
        return None
    return {name: fields.get(name, "").strip() for name in _FIELDS}


def _checked(fields: ApplicationFields) -> tuple[IBI, list[str]]:
    """Check the fields of a form; return the Archive and the hosts of its URLs. Raises BadField, ParseError."""
    ibi = parse_ibi(fields.service_ibi)
    if not is_mail_address(fields.mail):
        raise BadField(
            "this is not a plain mail address: {text}", name="mail", text=" ".join(fields.mail.split())
        )
    hosts = fields.hosts.replace(",", " ").split()
    if len(hosts) > MOST_HOSTS:
        raise ParseError("host", fields.hosts, "at most {most} hosts can be named", most=MOST_HOSTS)
    return ibi, hosts


def _is_same_origin(request: Request) -> bool:
    """Whether a form was sent from our own page, or by a program that is no browser."""
    if request.header(b"sec-fetch-site") not in {"", "same-origin", "none"}:
        return False
    origin = request.header(b"origin")
    try:
        return not origin or urlsplit(origin).netloc.lower() == request.header(b"host").lower()
    except ValueError:
        return False
