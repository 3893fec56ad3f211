"""The form with which Archives apply for registration: /-/register (REG-01, threat T41).

GET    a form
POST   service_ibi, address, mail, name, hosts (application/x-www-form-urlencoded)
       the Archive must confirm at its address at this moment; then its key is shown, once
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from ibi.errors import ForbiddenAddress, IbiError, ParseError, SetupError
from ibi.http.limits.token_bucket import client_key
from ibi.http.limits.window import FailureLimit
from ibi.http.response import JSON, NO_STORE, PLAIN, Response
from ibi.identifier.forms import parse_ibi
from ibi.resolver.members.applications import Application, NotConfirmed, NotTaken
from ibi.resolver.members.mail import is_recipient
from ibi.resolver.model.alert import Alert, Kind
from ibi.resolver.pages.site import RegistrationPage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.http.limits.window import FailureWindows
    from ibi.http.request import Request
    from ibi.resolver.members.applications import Applications
    from ibi.resolver.pages.site import Site

PATH: Final = "/-/register"
"""Where Archives apply."""

LARGEST_BODY: Final = 8_192
"""Bytes of a form."""

APPLICATIONS: Final = FailureLimit("application from", 10, 3_600.0)
"""How many forms one source may send."""

MOST_HOSTS: Final = 20
"""Hosts that one application may name."""

_LONGEST_FIELD: Final = 512  # characters
_LONGEST_NAME: Final = 100  # characters of a name that are stored
_FIELDS: Final = ("service_ibi", "address", "mail", "name", "hosts")
_HOWTO: Final = "POST service_ibi, address, mail, name, hosts (application/x-www-form-urlencoded)\n"


class RegistrationHandler:
    """Answers at /-/register; with `is_open` false there is no such page."""

    def __init__(
        self, applications: Applications, throttle: FailureWindows, site: Site, *, is_open: bool
    ) -> None:
        self._applications = applications
        self._throttle = throttle
        self._site = site
        self._is_open = is_open

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer GET, HEAD or POST; `body` is that of a POST, at most LARGEST_BODY bytes."""
        if not self._is_open:
            return self._site.alert(request, Alert(Kind.NO_SUCH_PAGE))
        if request.reads:
            return self._response(request, RegistrationPage(dict.fromkeys(_FIELDS, "")))
        if request.method != "POST":
            return self._site.alert(request, Alert(Kind.WRONG_METHOD)).having(("allow", "GET, HEAD, POST"))
        return self._response(request, await self._post(request, read_form(body)))

    async def _post(self, request: Request, fields: dict[str, str] | None) -> RegistrationPage:
        """Check a form that was sent, and apply; `fields` is None where it cannot be read."""
        page = RegistrationPage(fields or dict.fromkeys(_FIELDS, ""))
        if not _is_same_origin(request):
            return replace(page, problem=IbiError("the form was sent from another site"), status=403)
        kind = request.header(b"content-type").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded" or fields is None:
            return replace(page, problem=IbiError("this is not the form that was expected"), status=415)
        source = client_key(request.source)
        wait = int(self._throttle.wait(APPLICATIONS, source))
        if wait:
            problem = IbiError("too many applications came from there; please try again later")
            return replace(page, problem=problem, status=429, retry_after=wait + 1)
        # Counted whatever comes of it: each form makes this resolver call an address that the sender chose.
        self._throttle.failed(APPLICATIONS, source)
        return await self._apply(page)

    async def _apply(self, page: RegistrationPage) -> RegistrationPage:
        """Apply with the fields of a page; return it with the key, or with what is wrong."""
        try:
            return replace(page, key=await self._applications.apply(_application(page.fields)))
        except (ParseError, NotConfirmed) as error:
            return replace(page, problem=error, status=422)
        except NotTaken as error:
            return replace(page, problem=error, status=409)
        except ForbiddenAddress:
            # Without the reason: it would show strangers what names mean in the network of this resolver.
            return replace(page, problem=IbiError("no Archive can be at this address"), status=422)
        except SetupError as error:
            return replace(page, problem=error, status=503, retry_after=5)

    def _response(self, request: Request, page: RegistrationPage) -> Response:
        """Write a page in the form that the request accepts; never cached, since it may have a key in it."""
        retry = () if page.retry_after is None else (("retry-after", str(page.retry_after)),)
        html = self._site.shown(
            request, lambda pages, language: pages.registration(page, language), page.status
        )
        if html is not None:
            return html.having(*retry)
        say = self._site.say(request)
        problem = say(page.problem.problem, page.problem.details) if page.problem else ""
        if request.form == "json":
            answer = {"service_ibi": page.fields["service_ibi"], "key": page.key}
            body, kind = json.dumps({"problem": problem} if problem else answer).encode(), JSON
        else:
            body, kind = f"{problem or page.key or _HOWTO.strip()}\n".encode(), PLAIN
        return Response(page.status, body, kind, (*NO_STORE, *retry))


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
    return {name: fields.get(name, "").strip()[:_LONGEST_FIELD] for name in _FIELDS}


def _application(fields: Mapping[str, str]) -> Application:
    """Read an application from the fields of a form. Raises ParseError."""
    ibi, mail = parse_ibi(fields["service_ibi"]), fields["mail"]
    if not is_recipient(mail):
        raise ParseError("mail", mail, "the address of the administrator is a mail address")
    hosts = tuple(fields["hosts"].replace(",", " ").split())
    if len(hosts) > MOST_HOSTS:
        raise ParseError("host", fields["hosts"], "at most {most} hosts can be named", most=MOST_HOSTS)
    name = "".join(char if char.isprintable() else " " for char in fields["name"])[:_LONGEST_NAME]
    return Application(ibi, fields["address"], mail, name, hosts)


def _is_same_origin(request: Request) -> bool:
    """Whether a form was sent from our own page, or by a program that is no browser."""
    if request.header(b"sec-fetch-site") not in {"", "same-origin", "none"}:
        return False
    origin = request.header(b"origin")
    try:
        return not origin or urlsplit(origin).netloc.lower() == request.header(b"host").lower()
    except ValueError:
        return False
