"""`ibi resolve TEXT --resolver URL`: where does it lead? Asked so that nothing is counted as read."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ibi.errors import IbiError, PeerGarbled, PeerSilent, SetupError
from ibi.http.response import visible
from ibi.resolver.pages.site import persistent_path
from ibi.runtime.i18n import reader_language, say

if TYPE_CHECKING:
    import argparse

_SECONDS = 15  # no resolution may take so long
_STATUS = re.compile("[1-5][0-9][0-9]")
_LONGEST_ANSWER = 4 * 1024 * 1024


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolve` to the commands."""
    parser = commands.add_parser("resolve", help="ask a resolver where a persistent URL leads")
    parser.add_argument("text", metavar="TEXT", help="a persistent URL, an IBI, or a text with one in it")
    parser.add_argument("--resolver", required=True, metavar="URL", help="the root URL of the resolver")
    parser.add_argument("--explain", action="store_true", help="tell who was asked and who answered what")
    parser.add_argument("--language", metavar="RANGES", help="what a browser would send as Accept-Language")
    parser.add_argument("--json", action="store_true", help="one JSON document: the explanation")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the URL, or the explanation. Raises IbiError where there is no such URL."""
    try:
        return _ask(args)
    except (LookupError, TypeError, AttributeError, RecursionError):  # JSON, but not as a resolver writes it
        raise PeerGarbled("the resolver's answer cannot be understood") from None


def _ask(args: argparse.Namespace) -> int:
    target = persistent_path(args.text)
    resolver = _Resolver(args.resolver, args.language or reader_language())
    wanted = "text/plain" if args.explain and not args.json else "application/json"
    reply = resolver.ask("GET", f"/-/explain{target}", wanted)
    if reply.kind == "application/problem+json":
        raise _refusal(reply.json())
    if reply.status != http.client.OK or not reply.kind.startswith(wanted):
        return _ask_other_software(resolver, target, args)
    outcome = reply.outcome
    if wanted == "text/plain":
        print(reply.body.decode("utf-8", "replace"), end="")
        return 0 if outcome == http.client.FOUND else 1
    explanation = reply.json()
    if args.json:
        print(json.dumps(explanation, ensure_ascii=False, indent=1))
        return 0 if outcome == http.client.FOUND else 1
    if outcome != http.client.FOUND:
        raise _refusal(explanation["outcome"]["alert"])
    print(visible(explanation["outcome"]["location"]))
    return 0


def _ask_other_software(resolver: _Resolver, target: str, args: argparse.Namespace) -> int:
    """Print the redirect of a resolver that explains nothing."""
    # HEAD, since a GET would be counted as a reader, and acknowledged to the Archive.
    if args.explain or args.json:
        raise PeerGarbled("this resolver does not explain what it does")
    reply = resolver.ask("HEAD", target, "text/plain")
    if reply.location:
        print(visible(reply.location))
        return 0
    raise IbiError("the resolver answers with the status {status}", status=reply.status)


def _refusal(alert: dict[str, Any]) -> IbiError:
    """An alert as the one line of the command line."""
    counts = alert.get("archives")
    line = f"{alert['title']}. {alert['detail']}"
    if counts:
        line += " " + say(
            "Archives asked: {asked}; answered: {answered}",
            asked=counts["asked"],
            answered=counts["answered"],
        )
    return IbiError("{line}", line=line)


class _Reply(NamedTuple):
    status: int
    kind: str
    location: str
    outcome: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises PeerGarbled if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise PeerGarbled("the resolver's answer is not JSON") from None


class _Resolver:
    """One resolver, by its root URL."""

    def __init__(self, root: str, language: str) -> None:
        try:
            parts = urlsplit(root)
            self._port, self._host = parts.port, parts.hostname
        except ValueError:
            parts, self._host = urlsplit(""), None
        visible = all("!" <= char <= "~" for char in root)
        if parts.scheme not in {"http", "https"} or not self._host or not visible or parts.query:
            raise SetupError(
                "--resolver takes the root URL of a resolver, http://urlib.net/; not {url}", url=root
            )
        self._secure = parts.scheme == "https"
        self._root = parts.path.rstrip("/")
        self._language = language if language.isascii() and language.isprintable() else "en"

    def ask(self, method: str, target: str, accept: str) -> _Reply:
        """One request. Raises PeerSilent or PeerGarbled."""
        host = self._host or ""
        connection = (
            http.client.HTTPSConnection(
                host, self._port, timeout=_SECONDS, context=ssl.create_default_context()
            )
            if self._secure
            else http.client.HTTPConnection(host, self._port, timeout=_SECONDS)
        )
        headers = {"Accept": accept, "Accept-Language": self._language, "User-Agent": "ibi-resolve"}
        try:
            connection.request(method, self._root + _visible(target), headers=headers)
            response = connection.getresponse()
            body = response.read(_LONGEST_ANSWER)
        except OSError as error:
            reason = error.strerror or error
            raise PeerSilent(
                "the resolver {host} cannot be reached: {reason}", host=host, reason=reason
            ) from None
        except (http.client.HTTPException, ValueError):
            raise PeerGarbled("what answers at {host} does not speak HTTP", host=host) from None
        finally:
            connection.close()
        outcome = response.getheader("ibi-outcome", "")
        return _Reply(
            response.status,
            response.getheader("content-type", "").partition(";")[0].strip().lower(),
            response.getheader("location", ""),
            int(outcome) if _STATUS.fullmatch(outcome) else 0,
            body,
        )


def _visible(target: str) -> str:
    return "".join(
        char if "!" <= char <= "~" else "".join(f"%{b:02X}" for b in char.encode()) for char in target
    )
