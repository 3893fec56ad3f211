"""Archives apply for registration at /-/register; a person approves or refuses them (REG-01, threat T41).

    GET    a form
    POST   service_ibi, address, mail, name, hosts (application/x-www-form-urlencoded)
           the Archive must confirm at its address at this moment; then its key is shown, once

An applied Archive is nobody that is asked: until it is approved, its requests are refused like anybody's.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from ibi.errors import ForbiddenAddress, IbiError, ParseError, SetupError
from ibi.exchange import JSON, NO_STORE, PLAIN, Response
from ibi.identifier.forms import parse_ibi
from ibi.limits import source_of
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.mail import is_recipient
from ibi.resolver.registration_page import RegistrationPage
from ibi.resolver.throttle import Limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.identifier.forms import IBI
    from ibi.resolver.confirming import Confirming
    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import Registry
    from ibi.resolver.site import Site
    from ibi.resolver.throttle import Throttle
    from ibi.resolver.visitor import Visitor
    from ibi.resolver.witness import Witness
    from ibi.settings import ResolverSettings

PATH: Final = "/-/register"
"""Where Archives apply."""

LARGEST_BODY: Final = 8_192
"""Bytes of a form."""

APPLICATIONS: Final = Limit("application from", 10, 3_600.0)
"""How many forms one source may send."""

MOST_HOSTS: Final = 20
"""Hosts that one application may name."""

_AT_ONCE: Final = 4  # applications whose Archives are asked at the same time
_LONGEST: Final = 512  # characters of a field
_NAME: Final = 100  # characters of a name that are kept
_FIELDS: Final = ("service_ibi", "address", "mail", "name", "hosts")
_HOWTO: Final = "POST service_ibi, address, mail, name, hosts (application/x-www-form-urlencoded)\n"


@dataclass(frozen=True, slots=True)
class _Application:
    service_ibi: IBI
    address: str
    mail: str
    name: str
    hosts: tuple[str, ...]


class Registration:
    """Answers at /-/register; where the settings do not open it, there is no such page."""

    def __init__(
        self,
        settings: ResolverSettings,
        registry: Registry,
        confirming: Confirming,
        throttle: Throttle,
        witness: Witness,
        mail: Mail,
        site: Site,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._confirming = confirming
        self._throttle = throttle
        self._witness = witness
        self._mail = mail
        self._site = site
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def register(self, visitor: Visitor, body: bytes) -> Response:
        """Answer GET, HEAD or POST; `body` is what a POST brought, at most LARGEST_BODY bytes."""
        if self._settings.registration != "form":
            return self._site.alert(visitor, Alert(Kind.NO_SUCH_PAGE))
        if visitor.reads:
            return self._answer(visitor, RegistrationPage(dict.fromkeys(_FIELDS, "")))
        if visitor.method != "POST":
            return self._site.alert(visitor, Alert(Kind.WRONG_METHOD)).having(("allow", "GET, HEAD, POST"))
        page = await self._posted(visitor, _read(body))
        return self._answer(visitor, page)

    async def _posted(self, visitor: Visitor, fields: dict[str, str] | None) -> RegistrationPage:
        """What became of a form that was sent; `fields` is None for what is none."""
        page = RegistrationPage(fields or dict.fromkeys(_FIELDS, ""))
        if not _is_from_here(visitor):
            return replace(page, problem=IbiError("the form was sent from another site"), status=403)
        kind = visitor.header(b"content-type").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded" or fields is None:
            return replace(page, problem=IbiError("this is not the form that was expected"), status=415)
        origin = source_of(visitor.source)
        wait = int(self._throttle.wait(APPLICATIONS, origin))
        if wait:
            problem = IbiError("too many applications came from there; please try again later")
            return replace(page, problem=problem, status=429, retry_after=wait + 1)
        self._throttle.failed(APPLICATIONS, origin)
        async with self._places:
            return await self._apply(page)

    async def _apply(self, page: RegistrationPage) -> RegistrationPage:
        """What became of a form."""
        try:
            wanted = _application(page.fields)
            self._confirming.check(wanted.service_ibi, wanted.address)
            confirmed = await self._confirming.confirms(wanted.service_ibi, wanted.address)
            if not confirmed:
                problem = (
                    "the Archive does not confirm at {address}: it must be switched on and reachable there"
                )
                return replace(page, problem=IbiError(problem, address=wanted.address), status=422)
            tell = partial(self._witness.write, "registered", ibi=str(wanted.service_ibi), by="form")
            key = await asyncio.to_thread(
                self._registry.apply,
                wanted.service_ibi, wanted.address, wanted.mail, wanted.name, wanted.hosts, tell,
            )  # fmt: skip
        except ParseError as error:
            return replace(page, problem=error, status=422)
        except ForbiddenAddress:  # why is not told: it might say what names mean in our own network
            return replace(page, problem=IbiError("no Archive can be at this address"), status=422)
        except SetupError as error:
            return replace(page, problem=error, status=503, retry_after=5)
        if key is None:
            problem = "{ibi} is registered or has applied already, or too many applications wait"
            return replace(page, problem=IbiError(problem, ibi=wanted.service_ibi), status=409)
        self._mail.applied(wanted.service_ibi, wanted.address, self._settings.admin)
        return replace(page, key=key)

    def _answer(self, visitor: Visitor, page: RegistrationPage) -> Response:
        """The page in the form that suits the reader; kept by nobody, since it may have a key in it."""
        later = () if page.retry_after is None else (("retry-after", str(page.retry_after)),)
        shown = self._site.shown(
            visitor, lambda pages, language: pages.registration(page, language), page.status
        )
        if shown is not None:
            return shown.having(*later)
        said = self._site.say(visitor)
        refusal = said(page.problem.problem, page.problem.details) if page.problem else ""
        if visitor.form == "json":
            facts = (
                {"problem": refusal}
                if refusal
                else {"service_ibi": page.fields["service_ibi"], "key": page.key}
            )
            body, kind = json.dumps(facts).encode(), JSON
        else:
            body, kind = f"{refusal or page.key or _HOWTO.strip()}\n".encode(), PLAIN
        return Response(page.status, body, kind, (*NO_STORE, *later))


def _read(body: bytes) -> dict[str, str] | None:
    """The fields of a form, each once; None for what is no form."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=len(_FIELDS)
        )
    except ValueError:
        return None
    fields = dict(pairs)
    if len(fields) < len(pairs) or not fields.keys() <= set(_FIELDS):
        return None
    return {name: fields.get(name, "").strip()[:_LONGEST] for name in _FIELDS}


def _application(fields: Mapping[str, str]) -> _Application:
    """What a form says. Raises ParseError."""
    ibi, mail = parse_ibi(fields["service_ibi"]), fields["mail"]
    if not is_recipient(mail):
        raise ParseError("mail", mail, "the address of the administrator is a mail address")
    hosts = tuple(fields["hosts"].replace(",", " ").split())
    if len(hosts) > MOST_HOSTS:
        raise ParseError("host", fields["hosts"], "at most {most} hosts can be named", most=MOST_HOSTS)
    name = "".join(char if char.isprintable() else " " for char in fields["name"])[:_NAME]
    return _Application(ibi, fields["address"], mail, name, hosts)


def _is_from_here(visitor: Visitor) -> bool:
    """Whether a form was sent from our own page, or by no browser at all."""
    if visitor.header(b"sec-fetch-site") not in {"", "same-origin", "none"}:
        return False
    origin = visitor.header(b"origin")
    try:
        return not origin or urlsplit(origin).netloc.lower() == visitor.header(b"host").lower()
    except ValueError:
        return False
