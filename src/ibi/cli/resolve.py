"""`ibi resolve TEXT --resolver URL`: asks where a persistent URL leads, without being counted as a reader."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from string import punctuation
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from ibi.cli.common import argument, flag
from ibi.errors import IbiError, PeerGarbled, PeerSilent, SetupError
from ibi.http.response import visible
from ibi.runtime.i18n import reader_language, say

if TYPE_CHECKING:
    import argparse

_SECONDS = 15  # timeout; every resolution takes less
_STATUS = re.compile("[1-5][0-9][0-9]")
_LONGEST_ANSWER = 4 * 1024 * 1024  # bytes of an answer that are read; the rest is ignored (T10)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `resolve` to the commands."""
    parser = commands.add_parser("resolve", help="ask a resolver where a persistent URL leads")
    argument(parser, "text TEXT", "a persistent URL, an IBI, or a text with one in it")
    argument(parser, "--resolver URL", "the root URL of the resolver", required=True)
    flag(parser, "--explain", "tell who was asked and who answered what")
    argument(parser, "--language RANGES", "what a browser would send as Accept-Language")
    flag(parser, "--json", "one JSON document: the explanation")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the URL, or the explanation. Raises IbiError if the resolver gives no URL."""
    try:
        return _ask(args)
    except (LookupError, TypeError, AttributeError, RecursionError):  # JSON, but not of a resolver's form
        raise PeerGarbled("the resolver's answer cannot be understood") from None


def _ask(args: argparse.Namespace) -> int:
    from ibi.resolver.pages.site import persistent_path

    target = persistent_path(args.text)
    wanted = "text/plain" if args.explain and not args.json else "application/json"
    reply = send(args.resolver, "GET", f"/-/explain{target}", wanted, args.language)
    if reply.kind == "application/problem+json":
        raise _refusal(reply.json())
    if reply.status != http.client.OK or not reply.kind.startswith(wanted):
        return _ask_other_software(args, target)
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


def _ask_other_software(args: argparse.Namespace, target: str) -> int:
    """Print the redirect of a resolver of another make, which has no explanations."""
    # HEAD, because a GET would be counted as a reader, and acknowledged to the Archive.
    if args.explain or args.json:
        raise PeerGarbled("this resolver does not explain what it does")
    reply = send(args.resolver, "HEAD", target, "text/plain", args.language)
    if reply.location:
        print(visible(reply.location))
        return 0
    raise IbiError("the resolver answers with the status {status}", status=reply.status)


def _refusal(alert: dict[str, Any]) -> IbiError:
    """Return an alert as an error of one line."""
    counts = alert.get("archives")
    line = f"{alert['title']}. {alert['detail']}"
    if counts:
        sentence = "Archives asked: {asked}; answered: {answered}"
        line += " " + say(sentence, asked=counts["asked"], answered=counts["answered"])
    return IbiError("{line}", line=line)


class Reply(NamedTuple):
    """A resolver's answer. `outcome`: the status that a reader would get (`ibi-outcome`), 0 if not given."""

    status: int
    kind: str
    location: str
    outcome: int
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON. Raises PeerGarbled if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise PeerGarbled("the resolver's answer is not JSON") from None


def send(url: str, method: str, target: str, accept: str, language: str | None = None) -> Reply:
    """Send a request to the resolver at a root URL. Raises SetupError (bad URL), PeerSilent, PeerGarbled."""
    root = _root_of(url)
    host, port = root.hostname or "", root.port
    language = language or reader_language()
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    if root.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
    headers = {
        "Accept": accept,
        "Accept-Language": language if language.isascii() and language.isprintable() else "en",
        "User-Agent": "ibi-resolve",
    }
    try:
        path = root.path.rstrip("/") + quote(target, safe=punctuation)
        connection.request(method, path, headers=headers)
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
    return Reply(
        response.status,
        response.getheader("content-type", "").partition(";")[0].strip().lower(),
        response.getheader("location", ""),
        int(outcome) if _STATUS.fullmatch(outcome) else 0,
        body,
    )


def _root_of(url: str) -> SplitResult:
    """Split the root URL of a resolver. Raises SetupError if it is no such URL."""
    try:
        root = urlsplit(url)
        host, _ = root.hostname, root.port  # urlsplit checks the port only when it is read
    except ValueError:
        root, host = urlsplit(""), None
    is_visible = all("!" <= char <= "~" for char in url)
    if root.scheme not in {"http", "https"} or not host or not is_visible or root.query:
        raise SetupError("--resolver takes the root URL of a resolver, http://urlib.net/; not {url}", url=url)
    return root
