"""Raw requests to a resolver or an Archive: nearly good ones of every kind, and spoilt ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proofs.common import numbered
from proofs.fuzz import corpus, grammar
from proofs.fuzz.making import Maker, as_bytes, dumped

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

_METHODS: Final = (
    *("GET",) * 14,
    "HEAD",
    "HEAD",
    "POST",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "get",
    "X",
)
_HEADERS: Final = {
    "Accept": "accept", "Accept-Language": "languages", "Range": "range", "If-None-Match": "tag", "If-Match": "tag",
    "If-Range": "tag", "If-Modified-Since": "httpdate", "X-Forwarded-For": "ips", "CDN-Loop": "loop",
    "Sec-Purpose": "word",
    "Authorization": "key", "Cookie": "pair", "Referer": "url", "Origin": "url", "Expect": "word",
    "Upload-Offset": "d",
    "Upload-Length": "dd", "Tus-Resumable": "word", "Content-Type": "kind", "Content-Encoding": "word",
    "Upgrade": "word",
    "X-HTTP-Method-Override": "word", "Upload-Metadata": "pct", "Sec-Fetch-Site": "word", "User-Agent": "word",
}  # fmt: skip
"""Which headers may come, and by which rule their values are made."""

_OF_RESOLVER: Final = (
    "/", "/robots.txt", "/favicon.ico", "/sitemap.xml", "/-/healthz", "/-/readyz", "/-/about", "/-/find",
    "/-/register",
    "/-/api/keys", "/-/metrics", "/-/registry", "/-/nonce", "/-/explain/", "/-/x", "/.well-known/x", "/-/status",
    "/-/api/handles/", "/-/api/openapi.json", "/-/timegate/", "/-/timemap/", "/-/admin", "/-/admin/sign-in",
    "/.well-known/security.txt", "/.well-known/api-catalog", "/-/static/",
    "/-/api/registrations", f"/-/api/registrations/{corpus.REP}", f"/-/api/registrations/{corpus.REP}/approve",
    "/-/api/archives", "/-/api/alerts", "/-/api/log", "/-/api/log?before=7&limit=9&what=alert", "/-/api/log/verify",
    "/-/api/settings", "/-/api/accounts", "/-/api/accounts/x", "/-/api/tokens",
)  # fmt: skip
_OF_ARCHIVE: Final = (
    "/", "/robots.txt", "/favicon.ico", "/-/healthz", "/-/readyz", "/-/about", "/-/nonce", "/-/holdings", "/-/api/",
    f"/col/{corpus.REP}/doc/index.html", f"/col/{corpus.REP}/doc/a%20b.pdf", f"/{corpus.REP}",
    f"/{corpus.IBIP}:", "/-/x", "/-/search", "/-/browse", "/-/feed", "/-/api/search", "/-/sitemap/1.xml",
    "/sitemap.xml", "/-/oai", "/-/admin", "/-/admin/sign-in", "/-/admin/deposit", f"/-/item/{corpus.REP}",
    f"/-/linkset/{corpus.REP}", f"/-/qr/{corpus.REP}.svg", f"/-/timegate/{corpus.REP}",
    f"/-/timemap/{corpus.REP}", f"/{corpus.REP}?info",
    f"/{corpus.REP}?json", "/-/api/handles/", f"/-/api/handles/{corpus.REP}", "/-/static/", "/.well-known/security.txt",
)  # fmt: skip


class Request(NamedTuple):
    """A request, in the pieces in which it comes; `methods`: those of what stands in it."""

    pieces: list[bytes]
    methods: tuple[bytes, ...]
    peer: str

    @property
    def raw(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces)


class RequestMaker:
    """Makes requests. `routes`: patterns of the JSON interface; `token`: one that may do everything there."""

    def __init__(
        self, chance: random.Random, *, resolver: bool, routes: Sequence[str] = (), token: str = ""
    ) -> None:
        self._chance = chance
        self._resolver = resolver
        self._host = numbered.ADDRESS if resolver else numbered.host(1)
        self._service = numbered.SERVICE if resolver else numbered.service(1)
        self._paths = _OF_RESOLVER if resolver else _OF_ARCHIVE
        self._routes = routes
        self._token = token
        self._maker = Maker(chance, (*corpus.vectors("url.parse"), *corpus.wild()), "url_path", wide=False)
        self._spoiler = Maker(chance, ("x",), "request", wide=False)

    def request(self) -> Request:
        """Another one."""
        chance = self._chance
        raw, method = self._one()
        methods = [method]
        if chance.random() < 0.05:
            more, method = self._one()
            raw, methods = raw + more, [*methods, method]
        if chance.random() < 0.2:
            for _ in range(chance.choice((1, 1, 2, 5))):
                raw = as_bytes(self._spoiler.spoilt(raw.decode("latin-1")))[: 1 << 16]
            methods.append(b"?")
        pieces = [raw]
        if chance.random() < 0.15:
            cuts = sorted(chance.randint(0, len(raw)) for _ in range(chance.choice((1, 2, 8))))
            pieces = [raw[at:end] for at, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        return Request(pieces, tuple(methods), f"192.0.2.{chance.randrange(250)}")

    def _one(self) -> tuple[bytes, bytes]:
        chance = self._chance
        method, target = chance.choice(_METHODS), self._target()
        body = b""
        headers = [("Host", self._host if chance.random() < 0.9 else self._made("host"))]
        sent = chance.sample(list(_HEADERS), chance.choice((0, 0, 1, 2, 4)))
        headers += [(name, self._made(_HEADERS[name])) for name in sent]
        if "/-/api/" in target and chance.random() < 0.5:
            headers.append(("Authorization", f"Bearer {self._token}"))
            method = chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"))
        if method not in {"GET", "HEAD"} or chance.random() < 0.03:
            body, kind = self._body()
            headers.append(("Content-Type", kind))
            body = self._framed(headers, body)
        version = (
            "HTTP/1.1"
            if chance.random() < 0.95
            else chance.choice(("HTTP/1.0", "HTTP/2.0", "http/1.1", "HTTP/9"))
        )
        lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in headers), "", ""]
        return as_bytes("\r\n".join(lines)) + body, method.encode()

    def _framed(self, headers: list[tuple[str, str]], body: bytes) -> bytes:
        chance = self._chance
        way = chance.random()
        if way < 0.15:
            headers.append(("Transfer-Encoding", "chunked"))
            return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        length = len(body) if way < 0.9 else chance.choice((0, 1, len(body) + 5, 10**6, 10**30, -1))
        headers.append(("Content-Length", str(length)))
        return body

    def _target(self) -> str:
        chance = self._chance
        match chance.randrange(12):
            case 0:
                target = self._maker.text()
            case 1 | 2:
                target = f"/{self._service}?{self._made('request')}"
            case 3:
                target = f"/{self._service}?{self._made('good_request')}"
            case 4:
                target = chance.choice(self._paths) + chance.choice(
                    ("", self._made("ibi"), f"?text={self._made('pct')}")
                )
            case 5 if self._routes:
                target = grammar.expand_text(chance.choice(self._routes), chance)
            case 5:
                target = f"/-/explain{self._made('url_path')}"
            case 6:
                target = (
                    f"/{chance.choice((corpus.REP, corpus.IBIP))}{self._made('modifier')}{self._made('path')}"
                )
            case 7:
                target = self._made("url_path")
            case _:
                target = self._made("good_url")
        if "?" not in target and chance.random() < 0.3:
            target += f"?{self._made(chance.choice(('query', 'request', 'pct')))}"
        return (
            target
            if chance.random() < 0.05
            else target.replace(" ", "%20").replace("\r", "").replace("\n", "")
        )

    def _body(self) -> tuple[bytes, str]:
        chance = self._chance
        match chance.randrange(5):
            case 0:
                return as_bytes(self._made("pair")), "application/x-www-form-urlencoded"
            case 1:
                return as_bytes(chance.choice(corpus.FORM)), "multipart/form-data; boundary=b"
            case 2:
                return chance.randbytes(chance.choice((0, 1, 300))), "application/offset+octet-stream"
            case _:
                value: Any = chance.choice(
                    (*corpus.ITEMS, {"service_ibi": numbered.service(1)}, {"word": "propose"}, [])
                )
                return as_bytes(dumped(self._maker.json(value))), "application/json"

    def _made(self, rule: str) -> str:
        return grammar.expand(rule, self._chance)[:4000]
