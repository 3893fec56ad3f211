"""The administration of a service: checks who may see a page, acts on forms, and shows problems on the page.

A service supplies page handlers, and functions that render pages, read forms with files, and explain errors.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

from ibi.accounts.forms import (
    MULTIPART,
    media_type_of,
    read_expired_form,
    read_fields,
    read_small_files,
    unpacked,
)
from ibi.accounts.layout import (
    ROOT,
    Form,
    Layout,
    NoticePage,
    PageHandler,
    PageRequest,
    SignInPage,
    no_such_page,
    query_of,
)
from ibi.accounts.sign_in import Authentication
from ibi.accounts.tokens import Scope
from ibi.errors import IbiError, SetupError
from ibi.http.request import ClientGone
from ibi.http.response import HTML, NO_STORE, Refusal, Response, fault_refusal
from ibi.runtime.i18n import chosen_language, preferred_language
from ibi.runtime.tasks import run_to_completion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from ibi.accounts.forms import Check, Receive
    from ibi.accounts.sign_in import Client, SignedInUser
    from ibi.http.request import Request
    from ibi.http.response import Headers

    Problem = tuple[int, IbiError, Headers]
    ReadForm = Callable[[Request, Receive, Check], AbstractAsyncContextManager[Form]]


_T = TypeVar("_T")
# No backslash, which browsers read as a slash: with it, an address could lead to another host.
_NEXT = re.compile(r"/-/admin(?:[/?][!-\[\]-~]*)?")
# Separate threads, so that an administrator who waits for a lock does not delay readers of files.
_THREADS: Final = ThreadPoolExecutor(16, "administration")
# Separate threads, because a long list takes long to render, and must not block the event loop.
_RENDERING: Final = ThreadPoolExecutor(2, "pages")
_log = logging.getLogger(__name__)


@asynccontextmanager
async def form_without_files(request: Request, receive: Receive, check: Check) -> AsyncIterator[Form]:
    """Read a form for a service that accepts no files."""
    yield await read_fields(request, receive, check)


@asynccontextmanager
async def form_with_small_files(request: Request, receive: Receive, check: Check) -> AsyncIterator[Form]:
    """Read a form with small files, which are kept in memory."""
    yield await read_small_files(request, receive, check)


class Administration:
    """Answers requests at /-/admin and below.

    `render` makes HTML of a layout in a language; `client_of` returns the client of a request, `problem_of`
    the status, sentence and headers for an error of the service (None: unknown error); `address`: that of the
    service; `read_form` reads a form with files, and discards the files at the end; `waiting` counts what waits
    for a person, by the word of the page where it is (it runs in a thread).
    """

    def __init__(
        self,
        authentication: Authentication,
        handlers: Mapping[str, PageHandler],
        render: Callable[[Layout, str], bytes],
        client_of: Callable[[Request], Client],
        address: str,
        problem_of: Callable[[Exception], Problem | None] = lambda _: None,
        read_form: ReadForm = form_without_files,
        waiting: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._authentication = authentication
        self._handlers = handlers
        self._scopes = {word: handler.scope for word, handler in handlers.items()}
        self._render = render
        self._client_of = client_of
        self._problem_of = problem_of
        self._address = address
        self._read_form = read_form
        self._waiting = waiting

    async def answer(self, request: Request, receive: Receive) -> Response:
        """Answer one request; an error becomes a page that says what to do."""
        try:
            return await self._answer(request, receive)
        except ClientGone:
            return Response(400)  # to a closed connection
        except asyncio.CancelledError:
            # The server stops and waits no longer; a page is better than a broken connection.
            problem: Exception = Refusal(
                503, IbiError("this server is stopping; ask again later"), ("retry-after", "11")
            )
        except Exception as error:  # noqa: BLE001 - judged below; details of our faults are not shown
            problem = error
        return await self._problem_page(request, Layout(), problem)

    def close(self) -> None:
        """Release the sessions."""
        self._authentication.close()

    async def _answer(self, request: Request, receive: Receive) -> Response:
        if request.method not in {"GET", "HEAD", "POST"}:
            why = IbiError("only {methods} are understood here", methods="GET, HEAD, POST")
            raise Refusal(405, why, ("allow", "GET, HEAD, POST"))
        # Checked first: a form of another site must not even sign a user in or out.
        if not request.reads:
            self._authentication.check_origin(request)
        word, rest = _place(request.path)
        client = self._client_of(request)
        if word == "sign-in":
            return await self._sign_in(request, receive, client)
        signed = await _in_thread(self._authentication.signed_in, request, client)
        if signed is None:
            return await self._not_signed_in(request, receive, client)
        if word == "sign-out" and not request.reads:
            return await self._sign_out(request, receive, signed, client)
        return await self._signed_in(PageRequest(request, signed, client, rest), word, receive)

    async def _signed_in(self, page_request: PageRequest, word: str, receive: Receive) -> Response:
        """Answer a user who is signed in."""
        handler = self._handlers.get(word)
        if handler is None:
            layout = Layout(signed=page_request.signed)
            return await self._problem_page(page_request.request, layout, no_such_page())
        if not page_request.signed.role.may(handler.scope):
            why = IbiError("your account does not permit this; ask an administrator")
            return await self._page(
                page_request.request, Layout(status=403, signed=page_request.signed, problem=why)
            )
        if page_request.request.reads:
            return await self._show(page_request, handler, word)
        return await self._submit(page_request, handler, word, receive)

    async def _show(
        self, page_request: PageRequest, handler: PageHandler, word: str, typed: Form | None = None
    ) -> Response:
        layout = Layout(signed=page_request.signed, here=word)
        try:
            page = await _in_thread(handler.show, page_request, typed)
        except Exception as error:  # noqa: BLE001 - judged there
            beside = await self._with_typed(page_request, handler, Form(tuple(page_request.query.items())))
            return await self._problem_page(page_request.request, replace(layout, page=beside), error)
        if isinstance(page, Response):  # a file to be saved
            return page
        done = page_request.query.get("done", "") if typed is None else "signed-in-again"
        return await self._page(page_request.request, replace(layout, page=page, done=done))

    async def _submit(
        self, page_request: PageRequest, handler: PageHandler, word: str, receive: Receive
    ) -> Response:
        """Act on a form. A problem is shown on the same page, with everything that was typed.

        Of a form that is too long or that no page of ours can have sent, nothing is shown again.
        """
        form, request = Form(), page_request.request
        layout = Layout(signed=page_request.signed, here=word)
        read_form: ReadForm = form_without_files
        if media_type_of(request) == MULTIPART and (handler.files or handler.small_files):
            read_form = form_with_small_files if handler.small_files else self._read_form
        try:
            async with read_form(
                request, receive, partial(Authentication.check_form, page_request.signed)
            ) as form:
                form.check_stored()
                if iscoroutinefunction(handler.do):
                    result = await handler.do(page_request, form)
                else:
                    result = await _in_thread(handler.do, page_request, form)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - judged there
            layout = replace(layout, page=await self._with_typed(page_request, handler, form))
            return await self._problem_page(request, layout, error, tell_all=handler.scope is not Scope.READ)
        if isinstance(result, Response):
            return result
        if isinstance(result, str):
            return Response(303, headers=(("location", result), *NO_STORE))
        return await self._page(request, replace(layout, page=result))

    async def _with_typed(self, page_request: PageRequest, handler: PageHandler, typed: Form) -> Any:
        """Return the page with the typed values, to show a problem beside them, or else an empty page."""
        if typed.fields:
            try:
                return await _in_thread(handler.show, page_request, typed)
            except Exception as second:  # noqa: BLE001 - the first error is the one that is shown
                _log.debug("what was typed cannot be shown again: %s", second)
        return NoticePage()

    async def _sign_in(self, request: Request, receive: Receive, client: Client) -> Response:
        possible = client.secure or client.local
        if request.reads:
            query = query_of(request)
            page = SignInPage(_inside(query.get("next", "")), possible=possible)
            return await self._page(request, Layout(page, done=query.get("done", "")))
        form = await read_fields(request, receive, lambda _: None)
        page = SignInPage(_inside(form.one("next")), form.one("name"), unpacked(form.one("kept")), possible)
        password = next(iter(form.many("password")), "")
        try:
            signed, cookies = await self._authentication.sign_in(request, client, form.one("name"), password)
        except Refusal as denied:
            return await self._problem_page(request, Layout(page), denied)
        kept = [("set-cookie", cookie) for cookie in cookies]
        if page.kept:
            return (await self._expired_form(request, signed, client, page)).having(*kept)
        return Response(303, headers=(("location", page.next or ROOT), *kept, *NO_STORE))

    async def _expired_form(
        self, request: Request, signed: SignedInUser, client: Client, page: SignInPage
    ) -> Response:
        """Show again a form that was sent after its session had ended, with everything that was typed."""
        word, rest = _place(page.next.partition("?")[0])
        handler = self._handlers.get(word)
        page_request = PageRequest(request, signed, client, rest)
        # The user who has signed in may not be the one who filled in the form.
        if handler is None or not page_request.signed.role.may(handler.scope):
            return Response(303, headers=(("location", ROOT), *NO_STORE))
        return await self._show(page_request, handler, word, Form(page.kept))

    async def _not_signed_in(self, request: Request, receive: Receive, client: Client) -> Response:
        """Ask the user to sign in, which then leads back here, with what was typed."""
        if request.reads:
            here = _inside(request.target)
            chosen = chosen_language(request.query)
            words = "&".join(
                ([f"next={quote(here, safe='/')}"] if here else []) + ([f"lang={chosen}"] if chosen else [])
            )
            return Response(
                303, headers=(("location", f"{ROOT}/sign-in?{words}".removesuffix("?")), *NO_STORE)
            )
        kept = await read_expired_form(request, receive)
        why = IbiError("your session has ended; sign in, and send the form again")
        if kept is None:
            why = IbiError(
                "your session has ended, and what you typed is too long to be kept here: "
                "go back in your browser and copy it before you sign in"
            )
        page = SignInPage(_inside(request.target), kept=kept or (), possible=client.secure or client.local)
        return await self._page(request, Layout(page, 403, problem=why))

    async def _sign_out(
        self, request: Request, receive: Receive, signed: SignedInUser, client: Client
    ) -> Response:
        form = await read_fields(request, receive, partial(Authentication.check_form, signed))
        cookie = await _in_thread(
            self._authentication.sign_out, signed, client, everywhere=bool(form.one("everywhere"))
        )
        # The session is gone, and with it the language; the link keeps it.
        words = f"done=signed-out&lang={signed.language}" if signed.language else "done=signed-out"
        return Response(
            303, headers=(("location", f"{ROOT}/sign-in?{words}"), ("set-cookie", cookie), *NO_STORE)
        )

    async def _problem_page(
        self, request: Request, layout: Layout, error: Exception, *, tell_all: bool = False
    ) -> Response:
        """Return a page with a problem; details of a fault of the server are only logged.

        `tell_all`: show also what is wrong with a setting, to those who may do more than read, as over JSON.
        """
        found = self._problem_of(error)
        if isinstance(error, Refusal):
            found = error.status, error.why, error.headers
        elif (
            found is None and isinstance(error, IbiError) and (tell_all or not isinstance(error, SetupError))
        ):
            found = 422, error, ()
        elif found is None:
            fault = fault_refusal(error)
            found = fault.status, fault.why, fault.headers
        status, problem, headers = found
        later = next((int(value) for name, value in headers if name == "retry-after"), None)
        layout = replace(layout, status=status, problem=problem, retry_after=later, reads=request.reads)
        page = await self._page(request, layout)
        return page.having(*headers)

    async def _page(self, request: Request, layout: Layout) -> Response:
        """Render a layout; the page may not be cached, framed by another site, or run a foreign script."""
        chosen = layout.signed.language if layout.signed else chosen_language(request.query)
        language = chosen or preferred_language(request.header(b"accept-language"))
        # New for each page: the policy permits only scripts with it, and none that a text might bring in.
        nonce = secrets.token_urlsafe(16)
        whole = replace(
            layout,
            nonce=nonce,
            address=self._address,
            kept_query=_kept_query(request),
            lang=f"?lang={chosen}" if chosen else "",
            scopes=self._scopes,
            waiting=await self._counts(layout),
        )
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(_RENDERING, self._render, whole, language)
        policy = (
            f"default-src 'none'; style-src 'self'; script-src 'nonce-{nonce}'; connect-src 'self'; "
            "font-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        headers = (
            ("content-security-policy", policy),
            # With "no-referrer", browsers would send forms with `Origin: null`, and check_origin would refuse them.
            ("referrer-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-robots-tag", "noindex, nofollow"),
            ("vary", "Cookie, Accept-Language"),
            *NO_STORE,
            ("content-language", language),
        )
        return Response(layout.status, body, HTML, headers)

    async def _counts(self, layout: Layout) -> Mapping[str, int]:
        """Return what waits for a person; {} if the user is not signed in, or where it cannot be read."""
        if layout.signed is None:
            return {}
        try:
            return await _in_thread(self._waiting)
        except Exception as error:  # noqa: BLE001 - a page must not fail for want of the numbers beside it
            _log.debug("what waits cannot be counted: %s", error)
            return {}


async def _in_thread(function: Callable[..., _T], *args: Any, **named: Any) -> _T:
    """Run a function in a thread; a cancelled caller still waits for it, because it may change something."""
    return await run_to_completion(partial(function, *args, **named), threads=_THREADS)


def _place(path: str) -> tuple[str, str]:
    """Return the word of the page in a path, and the rest of the path."""
    word, _, rest = path.removeprefix(ROOT).strip("/").partition("/")
    return word, rest


def _kept_query(request: Request) -> str:
    """Return the query of a page without its language and without the word that says what was done."""
    if not request.reads:
        return ""
    return urlencode([pair for pair in query_of(request).items() if pair[0] not in {"lang", "done"}])


def _inside(target: str) -> str:
    """Return an address in the administration, "" for any other: signing in must not lead to another site."""
    path = target.partition("?")[0]
    leads_out = "//" in target or ".." in path or "%2e" in path.lower() or "#" in target
    return target if _NEXT.fullmatch(target) and not leads_out and "sign-" not in target else ""
