"""An administration as a whole: who may see which page, what is sent, and what goes wrong, said on the page itself.

A service gives its pages, how they are written, how forms with files are taken in, and what its own errors mean.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from ibi.errors import IbiError, SetupError
from ibi.exchange import HTML, NO_STORE, Response
from ibi.interface.threads import in_one_of
from ibi.signing_in.door import Denied, Door
from ibi.signing_in.forms import MULTIPART, Gone, kind_of, read_fields
from ibi.signing_in.frames import Frame, NoticePage, SignInPage
from ibi.signing_in.late_forms import typed_late, unpacked
from ibi.signing_in.visit import ROOT, Form, NotFound, Visit, query_of
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from ibi.exchange import Asked, Headers
    from ibi.signing_in.door import Caller, Signed
    from ibi.signing_in.forms import Check, Receive
    from ibi.signing_in.frames import FrameRenderer
    from ibi.signing_in.visit import Screen

    Judged = tuple[int, IbiError, Headers]

_T = TypeVar("_T")
_NEXT = re.compile(r"/-/admin(?:[/?][!-\[\]-~]*)?")
_LATER: Final = (("retry-after", "10"),)
_THREADS: Final = ThreadPoolExecutor(16, "administration")  # so that nobody here keeps others waiting
_WRITING: Final = ThreadPoolExecutor(2, "pages")  # a long list takes long, and the loop has others to answer
_log = logging.getLogger(__name__)


@asynccontextmanager
async def without_files(asked: Asked, receive: Receive, check: Check) -> AsyncIterator[Form]:
    """How a service reads forms that takes no files."""
    yield await read_fields(asked, receive, check)


@dataclass(frozen=True, slots=True)
class Manners:
    """What an administration has of its service.

    `caller`: from where somebody asks; `take`: how a form with files is read, whose files are cleared away at the end;
    `judge`: what an error of the service means, None for an error that it does not know; `address`: what it is called.
    """

    caller: Callable[[Asked], Caller]
    judge: Callable[[Exception], Judged | None]
    address: str
    take: Callable[[Asked, Receive, Check], AbstractAsyncContextManager[Form]] = without_files


class Office:
    """What answers at /-/admin and below."""

    def __init__(
        self, door: Door, screens: Mapping[str, Screen], renderer: FrameRenderer, manners: Manners
    ) -> None:
        self._door = door
        self._screens = screens
        self._renderer = renderer
        self._manners = manners

    async def answer(self, asked: Asked, receive: Receive) -> Response:
        """The answer to one request; whatever goes wrong is a page that says what to do."""
        try:
            return await self._answer(asked, receive)
        except Gone:
            return Response(400)  # nobody reads it
        except asyncio.CancelledError:  # the server stops and waits no longer
            problem: Exception = Denied(503, IbiError("this server is stopping; ask again later"), 10)
        except Exception as error:  # noqa: BLE001 - judged below; a fault of ours must not show itself
            problem = error
        return await self._wrong(asked, Frame(NoticePage()), problem)

    def close(self) -> None:
        """Give up what is held."""
        self._door.close()

    async def _answer(self, asked: Asked, receive: Receive) -> Response:
        if asked.method not in {"GET", "HEAD", "POST"}:
            why = IbiError("only {methods} are understood here", methods="GET, HEAD, POST")
            page = await self._page(asked, Frame(NoticePage(), 405, problem=why))
            return page.having(("allow", "GET, HEAD, POST"))
        if not asked.reads:
            self._door.check_origin(asked)
        word, rest = _place(asked.path)
        caller = self._manners.caller(asked)
        if word == "sign-in":
            return await self._sign_in(asked, receive, caller)
        signed = await _aside(self._door.who, asked, caller)
        if signed is None:
            return await self._outside(asked, receive, caller)
        if word == "sign-out" and not asked.reads:
            return await self._sign_out(asked, receive, signed, caller)
        return await self._within(Visit(asked, signed, caller, rest), word, receive)

    async def _within(self, visit: Visit, word: str, receive: Receive) -> Response:
        """A page for somebody who is signed in."""
        screen = self._screens.get(word)
        if screen is None:
            return await self._wrong(
                visit.asked, Frame(NoticePage(), signed=visit.signed), NotFound("there is no such page here")
            )
        if not visit.may(screen.scope):
            why = IbiError("your account is not for this; ask an administrator")
            return await self._page(visit.asked, Frame(NoticePage(), 403, visit.signed, why))
        if visit.asked.reads:
            return await self._shown(visit, screen, word)
        return await self._sent(visit, screen, word, receive)

    async def _shown(self, visit: Visit, screen: Screen, word: str, typed: Form | None = None) -> Response:
        frame = Frame(NoticePage(), 200, visit.signed, here=word)
        try:
            page = await _aside(screen.show, visit, typed)
        except Exception as error:  # noqa: BLE001 - judged there
            beside = await self._beside(visit, screen, Form(tuple(visit.query.items())))
            return await self._wrong(visit.asked, replace(frame, page=beside), error)
        done = visit.query.get("done", "") if typed is None else "signed-in-again"
        return await self._page(visit.asked, replace(frame, page=page, done=done))

    async def _sent(self, visit: Visit, screen: Screen, word: str, receive: Receive) -> Response:
        """Do what a form says. What cannot be done is said on the same page, with all that was typed."""
        form, asked = Form(), visit.asked
        frame = Frame(NoticePage(), 200, visit.signed, here=word)
        take = self._manners.take if screen.files and kind_of(asked) == MULTIPART else without_files
        try:
            async with take(asked, receive, partial(Door.check_form, visit.signed)) as form:
                came = await _aside(screen.do, visit, form)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - judged there
            frame = replace(frame, page=await self._beside(visit, screen, form))
            return await self._wrong(asked, frame, error, tell_all=screen.scope is Scope.ADMIN)
        if isinstance(came, str):
            return Response(303, headers=(("location", came), *NO_STORE))
        return await self._page(asked, replace(frame, page=came))

    async def _beside(self, visit: Visit, screen: Screen, typed: Form) -> Any:
        """The page with what was typed, beside which is said what went wrong; an empty one where it cannot be shown."""
        if typed.fields:
            try:
                return await _aside(screen.show, visit, typed)
            except Exception as second:  # noqa: BLE001 - the first error is the one that is told
                _log.debug("what was typed cannot be shown again: %s", second)
        return NoticePage()

    async def _sign_in(self, asked: Asked, receive: Receive, caller: Caller) -> Response:
        possible = caller.secure or caller.local
        if asked.reads:
            query = query_of(asked)
            page = SignInPage(_inside(query.get("next", "")), possible=possible)
            return await self._page(asked, Frame(page, done=query.get("done", "")))
        form = await read_fields(asked, receive, lambda _: None)
        page = SignInPage(_inside(form.one("next")), form.one("name"), unpacked(form.one("kept")), possible)
        password = next(iter(form.many("password")), "")
        try:
            signed, cookies = await self._door.sign_in(asked, caller, form.one("name"), password)
        except Denied as denied:
            return await self._wrong(asked, Frame(page), denied)
        kept = [("set-cookie", cookie) for cookie in cookies]
        if page.kept:
            return (await self._again(asked, signed, caller, page)).having(*kept)
        return Response(303, headers=(("location", page.next or ROOT), *kept, *NO_STORE))

    async def _again(self, asked: Asked, signed: Signed, caller: Caller, page: SignInPage) -> Response:
        """The form that was sent after its session had ended, with all that was typed, to be sent once more."""
        word, rest = _place(page.next.partition("?")[0])
        screen = self._screens.get(word)
        visit = Visit(asked, signed, caller, rest)
        if screen is None or not visit.may(screen.scope):
            return Response(303, headers=(("location", ROOT), *NO_STORE))
        return await self._shown(visit, screen, word, Form(page.kept))

    async def _outside(self, asked: Asked, receive: Receive, caller: Caller) -> Response:
        """Nobody is signed in: the way in, and back to here with what was typed."""
        if asked.reads:
            here = _inside(asked.target)
            words = f"?next={quote(here, safe='/')}" if here else ""
            return Response(303, headers=(("location", f"{ROOT}/sign-in{words}"), *NO_STORE))
        kept = await typed_late(asked, receive)
        why = IbiError("your session has ended; sign in, and send the form again")
        if kept is None:
            why = IbiError(
                "your session has ended, and what you typed is too long to be kept here: "
                "go back in your browser and copy it before you sign in"
            )
        page = SignInPage(_inside(asked.target), kept=kept or (), possible=caller.secure or caller.local)
        return await self._page(asked, Frame(page, 403, problem=why))

    async def _sign_out(self, asked: Asked, receive: Receive, signed: Signed, caller: Caller) -> Response:
        form = await read_fields(asked, receive, partial(Door.check_form, signed))
        cookie = await _aside(self._door.sign_out, signed, caller, everywhere=bool(form.one("everywhere")))
        gone = (("set-cookie", cookie), *NO_STORE)
        return Response(303, headers=(("location", f"{ROOT}/sign-in?done=signed-out"), *gone))

    async def _wrong(
        self, asked: Asked, frame: Frame, error: Exception, *, tell_all: bool = False
    ) -> Response:
        """What went wrong, on a page. `tell_all`: to those who decide about the settings."""
        status, why, headers = _weighed(error, self._manners.judge, tell_all=tell_all)
        page = await self._page(asked, replace(frame, status=status, problem=why))
        return page.having(*headers)

    async def _page(self, asked: Asked, frame: Frame) -> Response:
        """A frame as an answer that nobody keeps, frames, or adds a script to."""
        language = self._renderer.language(asked.header(b"accept-language"))
        nonce = secrets.token_urlsafe(16)
        whole = replace(frame, nonce=nonce, address=self._manners.address)
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(_WRITING, self._renderer.render, whole, language)
        return Response(frame.status, body, HTML, (*_headers(nonce), ("content-language", language)))


async def _aside(function: Callable[..., _T], *args: Any, **named: Any) -> _T:
    """What a function gives that may wait, in a thread; who is cancelled waits for it: it may be changing something."""
    return await in_one_of(_THREADS, partial(function, *args, **named))


def _headers(nonce: str) -> Headers:
    policy = (
        f"default-src 'none'; style-src 'self'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return (
        ("content-security-policy", policy),
        ("referrer-policy", "same-origin"),  # without any, browsers would not say from where a form comes
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-robots-tag", "noindex, nofollow"),
        ("vary", "Cookie, Accept-Language"),
        *NO_STORE,
    )


def _weighed(error: Exception, judge: Callable[[Exception], Judged | None], *, tell_all: bool) -> Judged:
    """The status and the sentence of what went wrong; of a trouble of ours the log tells all."""
    if isinstance(error, Denied):
        return error.status, error.why, (("retry-after", str(int(error.wait) + 1)),) if error.wait else ()
    if isinstance(error, NotFound):
        return 404, error, ()
    judged = judge(error)
    if judged is not None:
        return judged
    if isinstance(error, IbiError) and (tell_all or not isinstance(error, SetupError)):
        return 422, error, ()
    _log.error(
        "a request could not be answered: %s", error, exc_info=None if isinstance(error, IbiError) else error
    )
    return 503, IbiError("this server cannot answer now; try again later"), _LATER


def _place(path: str) -> tuple[str, str]:
    """The word of a page in a path, and what follows it."""
    word, _, rest = path.removeprefix(ROOT).strip("/").partition("/")
    return word, rest


def _inside(target: str) -> str:
    """An address of the administration, "" for any other: nobody is led elsewhere after signing in."""
    path = target.partition("?")[0]
    leads_out = "//" in target or ".." in path or "%2e" in path.lower() or "#" in target
    return target if _NEXT.fullmatch(target) and not leads_out and "sign-" not in target else ""
