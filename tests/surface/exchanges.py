"""What the programs are asked over HTTP, and how an answer is written down.

Of an answer its status is held, every header by name and by value where that says what the program promises, and of
its body what programs and scripts read: keys and types of JSON, elements of XML, forms, links and ids of a page, and
texts as they are.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from ibi.web.formats import FORMATS
from surface.network import (
    ABOUT_NEW,
    CLAIMED,
    CLOSED,
    EMBARGOED,
    FIRST,
    LINKED,
    MINT,
    NEW,
    OLD,
    REMOVED,
    RESOLVER,
    SERVICES,
    TRANSLATED,
    UNKNOWN,
    UNLISTED,
    Answer,
    Network,
)
from surface.shapes import shape

_VARYING = frozenset(
    "date etag last-modified content-length content-digest repr-digest ratelimit retry-after x-request-id".split()
)
"""Headers of which only the name is held."""

HTML, PROBLEM, JSON, PLAIN = "text/html", "application/problem+json", "application/json", "text/plain"
FORMS_OF_AN_ALERT = (HTML, PROBLEM, PLAIN)


@dataclass(frozen=True)
class Ask:
    """One request to a program of the network."""

    program: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | str | dict[str, Any] | None = None
    token: bool = False

    @property
    def title(self) -> str:
        """How the request is called in the golden file."""
        headers = [f"{name.replace('_', '-')}: {value}" for name, value in self.headers.items()]
        body = self.body.decode() if isinstance(self.body, bytes) else self.body
        sent = [] if body is None else [body if isinstance(body, str) else json.dumps(body)]
        path = self.path.replace("x" * 9_000, "x…")
        return " | ".join(
            [f"{self.method} {path}", *headers, *(["with a token"] if self.token else []), *sent]
        )

    def of(self, network: Network) -> Answer:
        """What comes of it."""
        shown = network.program(self.program) if self.token else {}
        return network.ask(self.program, self.method, self.path, self.body, **self.headers, **shown)


def _get(program: str, path: str, *accepts: str, **headers: str) -> Iterator[Ask]:
    for accept in accepts or ("",):
        yield Ask(program, path, headers={**({"accept": accept} if accept else {}), **headers})


def at_the_resolver() -> Iterator[Ask]:
    """What readers and programs ask a resolver."""
    r = RESOLVER
    yield from _get(r, "/", HTML, PLAIN)
    for path in (
        "/robots.txt",
        "/.well-known/api-catalog",
        "/.well-known/security.txt",
        "/-/healthz",
        "/-/readyz",
    ):
        yield from _get(r, path)
    yield from _get(r, "/-/about")
    yield from _get(r, "/-/programs", HTML)
    yield from _get(r, "/-/status", HTML, JSON, PLAIN)
    for path in ("/-/nonce", "/-/registry", "/-/metrics"):
        yield from _get(r, path)
    yield from _get(r, "/-/register", HTML)
    yield from _get(r, "/-/admin", HTML)
    yield from _get(r, f"/-/find?text={quote(f'see {OLD}.')}", HTML, PLAIN)
    yield from _get(r, "/-/find?text=nothing", HTML, PLAIN)
    for path in (OLD, f"{OLD}!", f"{OLD}:", f"{NEW}/notes.txt", f"{NEW}?ibiurl.verblist=GetFileList", LINKED):
        yield from _get(r, f"/{path}")
    yield from _get(r, f"/{OLD}", user_agent="the second time")  # now it is known
    yield from _get(r, f"/{OLD}+", accept_language="pt-BR")
    yield Ask(r, f"/{OLD}", "HEAD")
    for target in ("info", "json"):
        yield from _get(r, f"/{OLD}?{target}", HTML, JSON, PLAIN)
    yield from _get(r, f"/-/explain/{OLD}!", HTML, JSON, PLAIN)
    yield from _get(r, f"/-/explain/{UNKNOWN}", JSON)
    yield from _get(r, f"/-/in/pt-BR/{UNKNOWN}", HTML)
    for path in (
        f"/-/timegate/{OLD}",
        f"/-/timemap/{OLD}",
        f"/-/api/handles/{OLD}",
        f"/-/api/handles/{OLD}?all",
        f"/-/api/handles/{UNKNOWN}",
    ):
        yield from _get(r, path)
    yield from _alerts_of_the_resolver()
    base = f"/{SERVICES[RESOLVER]}"
    yield from _get(r, base)
    request = {
        "archiveaddress": "nowhere.example", "archiveadmemailaddress": "admin@nowhere.example",
        "archiveip": "192.0.2.1", "archiveplatformversion": "1", "archiveprotocol": "HTTP",
        "archiveserviceibi": UNKNOWN,
        "registrationkey": "33333333333333333333", "servicesubject": "inclusionRequest",
    }  # fmt: skip
    yield from _get(r, f"{base}?{urlencode(request)}")
    yield from _get(r, f"{base}?{urlencode({**request, 'servicesubject': 'exclusionRequest'})}")
    yield from _get(r, f"{base}?servicesubject=strange")


def _alerts_of_the_resolver() -> Iterator[Ask]:
    r = RESOLVER
    original = "ibiurl.requireditemstatus=Original"
    yield from _get(r, f"/{CLAIMED}")  # the first sight of the original; at an alert there would be none
    time.sleep(1)  # until it stands in the evidence, by which an alert says since when who claims it
    for path in (
        "archive.example/first/2026/O3.02.10.15",  # bad-url
        UNKNOWN,  # not-found
        f"{OLD}+(fr)",  # no-translation
        f"{CLAIMED}?{original}",  # suspect-originals
        REMOVED,  # deleted
        "-/no-such-page",
    ):
        yield from _get(r, f"/{path}", *FORMS_OF_AN_ALERT)
    yield from _get(r, f"/{UNKNOWN}?{original}", PROBLEM)
    for accept in FORMS_OF_AN_ALERT:
        yield Ask(r, f"/{OLD}", "DELETE", {"accept": accept})
    yield from _get(r, f"/{OLD}", *FORMS_OF_AN_ALERT, host="strange.example")
    yield from _get(r, f"/{OLD}", *FORMS_OF_AN_ALERT, cdn_loop=f'ibi-resolver; id="{SERVICES[RESOLVER]}"')
    yield from _get(r, f"/{UNKNOWN}?x={'x' * 9_000}", PROBLEM)
    time.sleep(1)  # until the alert stands in the evidence, which programs read


def of_the_resolver_s_interface() -> Iterator[Ask]:
    """What programs with a token ask a resolver, and what they are refused."""
    api = "/-/api"
    words = (
        "registrations",
        "archives",
        "alerts",
        "log?limit=5",
        "log/verify",
        "settings",
        "accounts",
        "tokens",
    )
    for word in words:
        yield Ask(RESOLVER, f"{api}/{word}", token=True)
    yield Ask(RESOLVER, f"{api}/registrations/{SERVICES[FIRST]}", token=True)
    yield Ask(RESOLVER, f"{api}/settings")
    yield Ask(RESOLVER, f"{api}/settings", headers={"authorization": "Bearer ibi_wrong"})
    yield Ask(RESOLVER, f"{api}/nothing", token=True)
    yield Ask(RESOLVER, f"{api}/settings", "DELETE", token=True)
    yield Ask(RESOLVER, f"{api}/settings", "PATCH", body={"no_such_setting": 1}, token=True)
    yield Ask(RESOLVER, f"{api}/settings", "PATCH", body={"grace_seconds": 0.2}, token=True)
    yield Ask(RESOLVER, f"{api}/accounts", "POST", body={"name": "ann", "role": "administrator"}, token=True)
    yield Ask(RESOLVER, f"{api}/accounts/ann/password", "POST", token=True)
    yield Ask(RESOLVER, f"{api}/accounts/ann", "DELETE", token=True)
    yield Ask(RESOLVER, f"{api}/tokens", "POST", body={"name": "reader", "scopes": ["read"]}, token=True)
    yield Ask(RESOLVER, f"{api}/tokens/reader", "DELETE", token=True)
    one = {
        "ibi": UNKNOWN,
        "name": "Nobody",
        "mail": "nobody@archive.example",
        "url_hosts": ["archive.example"],
    }
    yield Ask(RESOLVER, f"{api}/registrations", "POST", body=one, token=True)
    yield Ask(RESOLVER, f"{api}/registrations/{UNKNOWN}/rotate", "POST", token=True)
    yield Ask(RESOLVER, f"{api}/registrations/{UNKNOWN}/allow-move", "POST", token=True)
    yield Ask(RESOLVER, f"{api}/registrations/{UNKNOWN}", "DELETE", token=True)
    yield Ask(RESOLVER, f"{api}/keys", "POST", body={"service_ibi": SERVICES[FIRST]})


def at_an_archive() -> Iterator[Ask]:
    """What readers, resolvers, harvesters and other programs ask an Archive."""
    a = FIRST
    yield from _get(a, "/", HTML, PLAIN)
    for path in (
        *(
            "/robots.txt",
            "/sitemap.xml",
            "/-/sitemap/1.xml",
            "/.well-known/resourcesync",
            "/-/resourcesync/capabilitylist.xml",
            "/-/resourcesync/changelist.xml",
            "/.well-known/api-catalog",
            "/.well-known/security.txt",
        ),
        *("/-/about", "/-/programs", "/-/healthz", "/-/readyz", "/-/nonce", "/-/holdings", "/-/metrics"),
        "/-/feed",
        *("/-/feed?text=names", f"/-/qr/{OLD}.svg", f"/-/timegate/{OLD}", f"/-/timemap/{OLD}"),
        *(
            f"/-/timemap/{OLD}?format=json",
            f"/-/linkset/{NEW}",
            f"/-/linkset/{NEW}?format=text",
            f"/-/zip/{NEW}",
        ),
    ):
        yield from _get(a, path)
    for path in (
        "/-/search?text=names",
        "/-/browse",
        "/-/browse?letter=s",
        "/-/statistics",
        "/-/about",
        "/-/admin",
    ):
        yield from _get(a, path, HTML)
    for item in (OLD, NEW, REMOVED, EMBARGOED, ABOUT_NEW):
        yield from _get(a, f"/-/item/{item}", HTML)
    yield from _get(a, f"/-/item/{NEW}", "image/png")
    yield from _get(a, f"/-/metadata/{NEW}", HTML)
    for name in (*(each.name for each in FORMATS), "strange"):
        yield from _get(a, f"/-/metadata/{NEW}?format={name}")
    for item in (NEW, UNLISTED, CLOSED, REMOVED):
        yield from _get(a, f"/-/files/{item}", HTML)
    yield from _files()
    for path in (OLD, f"{OLD}!", LINKED, REMOVED, UNKNOWN, f"{NEW}/notes.txt", TRANSLATED):
        yield from _get(a, f"/{path}")
    yield from _get(a, f"/{OLD}", "application/x-bibtex")
    for word in ("info", "json"):
        yield from _get(a, f"/{NEW}?{word}", HTML, JSON, PLAIN)
    yield from _get(a, f"/{REMOVED}?json")
    yield from _refusals_of_an_archive()
    yield from _oai()
    yield from _messages()


def _files() -> Iterator[Ask]:
    stored = f"/col/{NEW}/doc"
    yield from _get(FIRST, f"{stored}/index.html")
    yield from _get(FIRST, f"{stored}/notes.txt")
    yield from _get(FIRST, f"{stored}/notes.txt", range="bytes=0-2")
    yield from _get(FIRST, f"{stored}/notes.txt", range="bytes=100-")
    yield from _get(FIRST, f"{stored}/notes.txt", if_modified_since="Fri, 01 Jan 2999 00:00:00 GMT")
    yield Ask(FIRST, f"{stored}/data/table.csv", "HEAD")
    yield from _get(FIRST, f"{stored}/nothing.txt")
    yield from _get(FIRST, f"/col/{CLOSED}/doc/notes.txt", HTML, PROBLEM, PLAIN)
    yield from _get(FIRST, f"/col/{EMBARGOED}/doc/notes.txt", PROBLEM)


def _refusals_of_an_archive() -> Iterator[Ask]:
    for path in ("-/no-such-page", f"-/item/{UNKNOWN}"):
        yield from _get(FIRST, f"/{path}", *FORMS_OF_AN_ALERT)
    for accept in FORMS_OF_AN_ALERT:
        yield Ask(FIRST, f"/-/item/{OLD}", "DELETE", {"accept": accept})
    yield from _get(FIRST, "/", PROBLEM, host="strange.example")
    yield from _get(FIRST, "/archive.example/first/2026/O3.02.10.15", *FORMS_OF_AN_ALERT)


def _oai() -> Iterator[Ask]:
    identifier = quote(f"oai:127.0.0.1:{NEW}", "")
    for words in (
        *("Identify", "ListMetadataFormats", "ListSets", "ListIdentifiers&metadataPrefix=oai_dc"),
        *("ListRecords&metadataPrefix=oai_dc", "ListRecords&metadataPrefix=oai_datacite"),
        *(f"GetRecord&metadataPrefix=datacite&identifier={identifier}", "GetRecord&metadataPrefix=oai_dc"),
        *("Strange", "ListRecords&metadataPrefix=strange"),
    ):
        yield from _get(FIRST, f"/-/oai?verb={words}")
    form = {"content_type": "application/x-www-form-urlencoded"}
    yield Ask(FIRST, "/-/oai", "POST", form, "verb=Identify")


def _messages() -> Iterator[Ask]:
    """The messages of the standard and of its extensions, as a resolver sends them."""
    base = f"/{SERVICES[FIRST]}"
    yield from _get(FIRST, base)
    for item in (NEW, REMOVED, UNKNOWN, CLOSED):
        query = f"servicesubject=urlRequest&clientinformation.ipaddress=192.0.2.1&parsedibiurl.ibi={quote(item, '')}"
        yield from _get(FIRST, f"{base}?{query}")
    for words in ("&changes.word=5d1e0c4b7a9f2368", ""):
        yield from _get(FIRST, f"{base}?servicesubject=changesRequest{words}")
    yield from _get(FIRST, f"{base}?servicesubject=strange")


def of_an_archive_s_interface() -> Iterator[Ask]:
    """What programs ask the JSON interface of an Archive; first what only looks."""
    api = "/-/api"
    for path in (
        *("items?limit=3", f"items/{NEW}", f"items/{REMOVED}", f"items/{UNKNOWN}", f"items/{NEW}/statistics"),
        *("statistics", "search?text=names", f"handles/{NEW}", f"handles/{REMOVED}", f"handles/{UNKNOWN}"),
        *("items?limit=strange", "nothing", "state"),
    ):
        yield Ask(FIRST, f"{api}/{path}")
    for path in (
        *(
            f"items/{NEW}",
            f"items/{NEW}/history",
            "hand-overs",
            "membership",
            "state",
            "audit",
            "index",
            "accounts",
        ),
        *("tokens", "transfers/00000000000000000000000000000000"),
    ):
        yield Ask(FIRST, f"{api}/{path}", token=True)
    yield Ask(FIRST, f"{api}/uploads", "OPTIONS")
    yield Ask(FIRST, f"{api}/uploads", "POST", {"tus_resumable": "1.0.0", "upload_length": "3"}, token=True)
    yield Ask(FIRST, f"{api}/items", "DELETE", token=True)
    yield Ask(FIRST, f"{api}/items", "POST", body="no json", headers={"content_type": JSON}, token=True)
    yield Ask(FIRST, f"{api}/items", "POST", body="<a/>", headers={"content_type": "text/xml"}, token=True)
    yield Ask(FIRST, f"{api}/items", "POST", body={"strange": 1}, token=True)
    deposit = {
        "url": "http://elsewhere.example/y",
        "metadata": {"title": ["By a program"]},
        "key": "by-a-program",
    }
    yield Ask(FIRST, f"{api}/items", "POST", body=deposit, token=True)
    edit = {"rights": "others"}
    yield Ask(FIRST, f"{api}/items/{LINKED}", "PATCH", body=edit, token=True)
    yield Ask(FIRST, f"{api}/items/{LINKED}", "PATCH", {"if_match": '"strange"'}, edit, token=True)
    yield Ask(FIRST, f"{api}/items/{LINKED}", "PATCH", {"if_match": "*"}, edit, token=True)
    yield Ask(FIRST, f"{api}/items/{UNLISTED}/files/more.txt", "PUT", {"if_match": "*"}, b"more", token=True)
    yield Ask(FIRST, f"{api}/items/{UNLISTED}/files/more.txt", "DELETE", {"if_match": "*"}, token=True)
    lines = {"content_type": "application/jsonl"}
    record = '{"key": "imported", "url": "http://elsewhere.example/z"}\n{"strange": 1}\n'
    yield Ask(FIRST, f"{api}/imports?dry=yes", "POST", lines, record, token=True)
    yield Ask(FIRST, f"{api}/accounts", "POST", body={"name": "ann", "role": "keeper"}, token=True)
    yield Ask(FIRST, f"{api}/accounts/ann", "PATCH", body={"role": "depositor"}, token=True)
    yield Ask(FIRST, f"{api}/accounts/ann", "DELETE", token=True)
    yield Ask(FIRST, f"{api}/tokens", "POST", body={"name": "reader", "scopes": ["read"]}, token=True)
    yield Ask(FIRST, f"{api}/tokens/reader", "DELETE", token=True)
    yield Ask(FIRST, f"{api}/membership", "PATCH", body={"switched_on": True}, token=True)
    strange = {"word": "propose", "transfer": "0" * 32}
    yield Ask(FIRST, f"{api}/transfers", "POST", body=strange, token=True)
    unknown = {"word": "withdraw", "transfer": "0" * 32}
    yield Ask(FIRST, f"{api}/transfers", "POST", body=unknown, token=True)


ADMINISTRATION = {
    FIRST: (
        *(
            "",
            "/items",
            f"/items/{NEW}",
            "/deposit",
            f"/deposit?edition_of={NEW}",
            f"/edit/{NEW}",
            f"/files/{NEW}",
        ),
        *(f"/delete/{NEW}", "/copy", f"/transfer/{NEW}", "/import", "/membership", "/tokens", "/accounts"),
        *("/statistics", "/audit", "/account", "/nothing"),
    ),
    RESOLVER: (
        *(
            "",
            "/applications",
            "/archives",
            "/alerts",
            "/log",
            "/policies",
            "/accounts",
            "/account",
            "/nothing",
        ),
    ),
}
"""The pages for people who have signed in, below /-/admin."""


def at_a_mint() -> Iterator[Ask]:
    """What programs ask the minting service."""
    for path in ("/-/healthz", "/-/about", "/-/nonce", "/", "/-/nothing"):
        yield Ask(MINT, path)
    mint = "/-/api/mint"
    yield Ask(MINT, mint)
    yield Ask(MINT, mint, "POST")
    yield Ask(MINT, mint, "POST", token=True)
    yield Ask(MINT, mint, "POST", body={"count": 2, "forms": "rep"}, token=True)
    yield Ask(MINT, mint, "POST", {"accept": PLAIN}, {"count": 2}, token=True)
    yield Ask(MINT, mint, "POST", body={"count": 0}, token=True)
    yield Ask(MINT, mint, "POST", {"content_type": "text/xml"}, "<a/>", token=True)


# ---- how it is written down


def written(network: Network, answer: Answer) -> dict[str, Any]:
    """An answer as it stands in a golden file."""
    headers = {
        name: "" if name in _VARYING else network.tidied(_policy(name, value))
        for name, value in sorted(answer.headers.items())
    }
    return {"status": answer.status, "headers": headers, "body": _body(network, answer)}


def _policy(name: str, value: str) -> str:
    """A header value without the digests of what may be run and styled; of a cookie, without its value."""
    if name == "set-cookie":
        return re.sub(r"\bibi-[0-9a-f]{8}(-known)?=[^;,]+", r"ibi-HASH\1=VALUE", value)
    return re.sub(r"'(sha\d+|nonce)-[^']+'", r"'\1-…'", value)


_TEXTS = frozenset(
    f"application/{kind}" for kind in ("link-format", "linkset", "x-bibtex", "x-research-info-systems")
)


def _body(network: Network, answer: Answer) -> Any:  # noqa: PLR0911 - one for each kind of body
    kind = answer.kind
    if not answer.body:
        return ""
    if kind.endswith("json"):
        return _json(answer)
    if kind == HTML:
        return _page(network, answer.body.decode())
    if kind.endswith("xml"):
        return _elements(answer.body)
    if answer.headers.get("content-type", "").startswith("text/plain; version="):
        return _metrics(network.tidied(answer.body.decode()))
    if kind.startswith("text/") or kind in _TEXTS:
        return network.tidied(answer.body.decode()).splitlines()
    return f"{kind or 'no type'}, some bytes"


_TELLING = ("kind", "status", "type", "code", "responseCode", "role", "openapi")
"""Members of a document whose values programs compare with."""


def _json(answer: Answer) -> Any:
    value = answer.json()
    found = shape([value])
    if isinstance(value, dict):
        values = {key: value[key] for key in _TELLING if isinstance(value.get(key), str | int)}
        found |= {f"{key} =": values[key] for key in values}
    return found


def _metrics(text: str) -> list[str]:
    """The figures without their values."""
    lines = (line for line in text.splitlines() if not line.startswith("# HELP"))
    return sorted({line if line.startswith("#") else re.sub(r" \S+$", "", line) for line in lines})


def _elements(body: bytes) -> list[str]:
    """The elements of an XML document with their attributes, once for each place."""
    found: set[str] = set()

    def walk(element: ET.Element, above: str) -> None:
        path = f"{above}/{element.tag}"
        found.add(" @".join([path, *sorted(element.attrib)]))
        for child in element:
            walk(child, path if above else f"{element.tag}")

    walk(ET.fromstring(body), "")  # noqa: S314 - it is ours
    return sorted(found)


class _Page(HTMLParser):
    """What scripts, search engines and assistive technology take out of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.language = ""
        self.metas: set[str] = set()
        self.links: set[str] = set()
        self.forms: list[dict[str, Any]] = []
        self.ids: set[str] = set()
        self.leads: set[str] = set()
        self.data: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("id"):
            self.ids.add(given["id"])
        if tag == "html":
            self.language = given.get("lang", "")
        elif tag == "meta":
            self.metas |= {given.get("name") or given.get("property") or given.get("http-equiv") or ""} - {""}
        elif tag == "link":
            self.links.add(" ".join(filter(None, (given.get("rel"), given.get("type")))))
        elif tag == "form":
            self.forms.append(
                {"method": given.get("method", "get"), "action": given.get("action", ""), "fields": []}
            )
        elif tag in {"input", "select", "textarea", "button"} and given.get("name") and self.forms:
            self.forms[-1]["fields"].append(given["name"])
        elif tag == "a" and given.get("href", "").startswith(("/-/", "#", "items/", "edit/")):
            self.leads.add(re.sub(r"[?#].*", "", given["href"]) or "#")
        self._is_data = tag == "script" and given.get("type") == "application/ld+json"

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data.append(data)
            self._is_data = False


def _page(network: Network, text: str) -> dict[str, Any]:
    page = _Page()
    page.feed(text)
    found: dict[str, Any] = {
        "language": page.language,
        "meta": sorted(page.metas),
        "link": sorted(page.links),
        "forms": page.forms,
        "ids": sorted(page.ids),
        "leads to": sorted(page.leads),
        "json-ld": shape(json.loads(data) for data in page.data),
    }
    tidied: dict[str, Any] = json.loads(
        network.tidied(json.dumps({key: each for key, each in found.items() if each}))
    )
    return tidied
