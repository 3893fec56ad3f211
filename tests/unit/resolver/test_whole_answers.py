"""What a resolver answers, whole: status, headers in their order, body; and what it asks Archives meanwhile.

The answers are in `answers.txt`, each below a line with its request. To write that file anew after a change that is
meant: `PYTHONPATH=src:.:tests python -m tests.unit.resolver.test_whole_answers`; then read what has changed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs

import pytest

from ibi import __version__
from ibi.app.resolver import site_pages
from ibi.errors import PeerError, PeerSilent
from ibi.http.client import Reply
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ChangeNotification, ExclusionRequest, InclusionRequest
from support.clock import run_with_false_clock
from support.resolver.one_item import IBI, M16C, M16D, body, item, m16c, m16d
from support.resolver.running_resolver import KEY, enter
from support.servers.resolver_in_process import Answered, InProcess, in_process, reply
from support.web.html_page import Page

ANSWERS = Path(__file__).parent / "answers.txt"
USUAL = """\
access-control-allow-origin: *
access-control-expose-headers: content-language, etag, ibi-incomplete, ibi-outcome, link, memento-datetime, ratelimit, \
retry-after
x-content-type-options: nosniff
referrer-policy: no-referrer
"""
"""The last headers of most answers, which the file leaves out."""


def name(word: str) -> str:
    return f"a.example/{word}/2020/01.02.00.00"


def known(word: str, service: str, state: str = "Original", **pairs: str) -> bytes:
    """What an Archive says of an item of this scene."""
    facts = {
        "contenttype": "Data", "state": state, "timestamp": "2020-01-03T00:00:00Z", "urlkey": "1234567890",
        "url": f"http://{'c' if service == M16C else 'd'}.example/{word}", **pairs,
    }  # fmt: skip
    return body(service, f"{{rep {name(word)}}}", **facts)


HELD: dict[tuple[str, str, str], bytes | PeerError] = {
    ("c", IBI, ""): item(),
    ("c", IBI, "GetMetadata(bibtex)"): body(
        urlkey="1234567890",
        state="Original",
        **{"url_metadata(bibtex)": "http://c.example/bibtex", "state_metadata(bibtex)": "Original"},
    ),
    ("c", IBI, "GetTranslation"): item(url="http://c.example/en"),
    ("c", name("gone"), ""): body(
        ibi=f"{{rep {name('gone')}}}", state="Deleted", timestamp="2015-01-02T03:04:05Z"
    ),
    ("c", name("twice"), ""): known("twice", M16C),
    ("d", name("twice"), ""): known("twice", M16D),
    ("c", name("copied"), ""): known("copied", M16C, "Copy"),
    ("d", name("copied"), ""): known("copied", M16D, "Copy"),
    ("c", name("kept"), ""): known("kept", M16C, "Copy"),
    ("d", name("kept"), ""): known("kept", M16D),
    ("c", name("unsafe"), ""): known("unsafe", M16C, url="javascript:alert(1)"),
    ("c", name("half"), ""): known("half", M16C),
    ("d", name("half"), ""): PeerSilent("no whole answer within 3 s"),
    ("d", name("silent"), ""): PeerSilent("no whole answer within 3 s"),
}
"""(Archive, item, verbs) -> what it answers; nothing to all else."""


def answer(address: str, target: str) -> Reply | PeerError:
    """The answer of an Archive, or of the upstream resolver."""
    if address == "up.example":
        if name("up") in target:
            return reply(status=302, location="http://far.example/x", ibi_incomplete="1 of 7")
        problem = {"title": "It is not there", "kind": "not-found", "known": True}
        return reply(json.dumps(problem).encode(), 404, content_type="application/problem+json")
    query = parse_qs(target.partition("?")[2])
    if query.get("servicesubject") == ["inclusionConfirmationRequest"]:
        return reply(b"confirmation yes", content_type="text/plain")
    wanted = query.get("parsedibiurl.ibi", [""])[0], query.get("parsedibiurl.verblist", [""])[0]
    found = HELD.get((address.partition("mtc-m16")[2][:1], *wanted), b"")
    return found if isinstance(found, PeerError) else reply(found, content_type="text/plain")


JSON, TEXT, BROWSER = {"accept": "application/json"}, {"accept": "text/plain"}, {"accept": "text/html"}
ORIGINAL = "ibiurl.requireditemstatus=Original"


def switch(kind: Any, service: str = M16C, key: str = KEY) -> str:
    """The query of a request for inclusion or exclusion."""
    query: str = kind(
        "mtc-m16c.sid.inpe.br", parse_ibi(service), "192.0.2.1", "1", "ada@c.example", key
    ).query()
    return query


def change(service: str, **names: tuple[Any, ...]) -> str:
    return ChangeNotification(parse_ibi(service), **names).query()


INCLUSION = switch(InclusionRequest)
OWN = "/urlib.net/www/2014/03.22.01.53"
HOP = 'ibi-resolver; id="{}"'
SENT = {"origin": "https://far.example"}

Wanted = tuple[str, Mapping[str, str]]
CLICKS: Sequence[Wanted] = (
    (f"GET /{IBI}", {}),
    (f"HEAD /{IBI}", {}),
    (f"GET /{IBI}?a=1&b=%f3", {"x_forwarded_for": "192.0.2.7"}),
    (f"GET /ibi:{IBI}).?a=1", {}),
    (f"GET /{IBI}", {"accept": "application/x-bibtex"}),
    (f"GET /{IBI}+", {"accept_language": "en"}),
    (f"GET /{IBI}", {"sec_purpose": "prefetch"}),
    (f"GET /{IBI}?info", TEXT),
    (f"GET /{IBI}?json", {}),
    (f"GET /{name('kept')}?{ORIGINAL}", {}),
    (f"GET /{name('half')}?{ORIGINAL}", {}),
    (f"GET /-/explain/{name('half')}?{ORIGINAL}", JSON),
    (f"GET /-/explain/{IBI}+", JSON),
    (f"GET /-/explain/{IBI}", TEXT),
    (f"GET /-/in/pt-BR/{IBI}", {}),
    (f"GET /-/in/pt-BR/-/explain/{name('gone')}", TEXT),
    (f"GET /-/in/xx/{IBI}", TEXT),
)
ALERTS: Sequence[Wanted] = (
    (f"GET /{name('gone')}", TEXT),
    (f"GET /{name('gone')}", JSON),
    (f"GET /{name('twice')}?{ORIGINAL}", TEXT),
    (f"GET /{name('copied')}?{ORIGINAL}", JSON),
    (f"GET /{name('unsafe')}", TEXT),
    (f"GET /{name('silent')}", TEXT),
    (f"GET /{name('silent')}", JSON),
    (f"GET /-/explain/{name('silent')}", JSON),
    (f"GET /{name('unknown')}/a.pdf", TEXT),
    (f"GET /{name('unknown')}+(de)", JSON),
    ("GET /nothing", TEXT),
    ("GET /a.example/b/2020/01.01.00.O0?x", JSON),
    ("HEAD /nothing", {}),
    ("GET /-/explain/nothing", TEXT),
    (f"POST /{IBI}", TEXT),
    ("GET /-/nothing", TEXT),
    ("GET /.well-known/nothing", JSON),
    (f"GET /{IBI}?{'x' * (8192 - 1 - len(IBI))}", TEXT),
    (f"GET /{IBI}", {"host": "far.example", **TEXT}),
    (f"GET /{IBI}", {"host": "192.0.2.1:8080"}),
    (f"GET /{IBI}", {"cdn_loop": "ibi-resolver", **TEXT}),
    (f"GET /{IBI}", {"cdn_loop": HOP.format("urlib.net/www/2014/03.22.01.53"), **TEXT}),
    (f"GET /{IBI}", {"cdn_loop": ", ".join(map(HOP.format, "abcd"))}),
    (f"GET /{IBI}", {"cdn_loop": ", ".join(map(HOP.format, "abcde")), **JSON}),
)
PROGRAMS: Sequence[Wanted] = (
    (f"GET /-/api/handles/{IBI}?type=URL&type=IBI", {}),
    (f"GET /-/api/handles/{IBI}?index=11", {}),
    (f"GET /-/api/handles/{name('kept')}?all", {}),
    (f"GET /-/api/handles/{name('half')}?all&type=10320/loc", {}),
    (f"GET /-/api/handles/{name('twice')}?all", {}),
    (f"GET /-/api/handles/{name('gone')}", {}),
    (f"GET /-/api/handles/{name('silent')}", {}),
    (f"GET /-/api/handles/{name('unknown')}", {}),
    ("GET /-/api/handles/nothing", {}),
    (f"GET /-/api/handles/{IBI}?index=x", {}),
    (f"GET /-/timegate/{IBI}", {}),
    (f"GET /-/timegate/http://urlib.net/{IBI}", {}),
    (f"GET /-/timemap/{IBI}", {}),
    (f"GET /-/timemap/{name('gone')}", TEXT),
    ("GET /-/timemap/nothing", TEXT),
    ("GET /robots.txt", {}),
    ("GET /favicon.ico", {}),
    ("GET /sitemap.xml", TEXT),
    ("GET /-/healthz", {}),
    ("GET /-/readyz", {}),
    ("GET /.well-known/security.txt", TEXT),
    ("GET /.well-known/api-catalog", {}),
    ("GET /", TEXT),
    ("GET /-/status", TEXT),
    ("GET /-/about", JSON),
    ("GET /-/about?format=oai_dc", {}),
    (f"GET /-/find?text=ibi:{IBI}", {}),
    ("GET /-/find?text=nothing", TEXT),
    ("GET /-/programs", TEXT),
    ("GET /-/nonce", TEXT),
    ("GET /-/registry", TEXT),
    ("GET /-/register", TEXT),
    ("POST /-/register", TEXT),
    ("PUT /-/api/keys", {}),
    ("POST /-/api/keys", {}),
    ("GET /-/status", SENT),
)
URL_REQUEST = f"servicesubject=urlRequest&clientinformation.ipaddress=192.0.2.1&parsedibiurl.ibi={IBI}"
MESSAGES: Sequence[Wanted] = (
    (f"HEAD {OWN}?{INCLUSION}", {}),
    (f"GET {OWN}?{INCLUSION}", {"sec_purpose": "prefetch"}),
    (f"GET {OWN}!?{INCLUSION}", {}),
    (f"GET /{IBI}?{INCLUSION}", {}),
    (f"GET {OWN}?{switch(InclusionRequest, key=KEY[::-1])}", {}),
    (f"GET {OWN}?{switch(InclusionRequest, name('service'))}", {}),
    (f"GET {OWN}?{INCLUSION}", {"ibi_archive_title": "C", "ibi_archive_title_pt": "Arquivo C"}),
    (f"GET {OWN}?{switch(ExclusionRequest)}", {}),
    (f"GET {OWN}?{INCLUSION}", {}),
    (f"GET {OWN}?{change(M16C)}", {}),
    (f"GET {OWN}?{change(M16C)}", {"x_forwarded_for": "192.0.2.1"}),
    (f"GET {OWN}?{change(M16C)}", {"x_forwarded_for": "198.51.100.7, 192.0.2.1"}),
    (f"GET {OWN}?{change(M16D, changed=(parse_ibi(IBI),))}", {}),
    (f"GET {OWN}?{change(name('service'))}", {}),
    (f"GET {OWN}?servicesubject=nothing", {}),
    (f"GET {OWN}?{URL_REQUEST}", {}),
    (f"GET /{IBI}?{URL_REQUEST}", {"cdn_loop": "ibi-resolver"}),
    (f"GET {OWN}", {}),
    (f"GET {OWN}", BROWSER),
    (f"GET {OWN.upper()}:(oai_dc)", {}),
    ("GET /J8LNKB5R7W/3FUQHC5:", {}),
)
IN_BROWSERS: Sequence[Wanted] = tuple(
    (f"GET {path}", {**BROWSER, "accept_language": language})
    for path, language in (
        ("/", "en"), ("/-/status", "pt-BR"), ("/-/about", "pt-BR"), ("/-/programs", "en"),
        ("/-/find?text=see%20" + IBI, "en"), (f"/-/find?text={IBI}", "en"), (f"/-/find?text={IBI}&lang=en", "pt"),
        (f"/{name('gone')}", "en"), (f"/-/in/pt-BR/{name('gone')}", "en"), (f"/-/explain/{IBI}?lang=pt-BR", "en"),
        ("/-/register", "en"), ("/-/nothing?lang=pt-BR", "en"), (f"/{IBI}?info", "pt"),
    )
)  # fmt: skip
SCENES: dict[str, tuple[dict[str, Any], Sequence[Wanted]]] = {
    "clicks": ({}, CLICKS),
    "alerts": ({}, ALERTS),
    "programs": ({}, PROGRAMS),
    "messages": ({"trusted": [ip_network("127.0.0.0/8")]}, MESSAGES),
    "settings": (
        {"registration": "form", "admin": "root@urlib.net", "policy": "strict", "public_url": "https://urlib.net"},
        (
            (f"GET /{IBI}", {}), (f"GET /{name('silent')}", TEXT), ("GET /-/register", TEXT),
            ("GET /-/register", JSON), ("PUT /-/register", TEXT), ("GET /.well-known/security.txt", {}),
            ("GET /-/about", JSON), (f"GET /-/explain/{name('kept')}", TEXT), ("POST /-/register", TEXT),
        ),
    ),
    "upstream": (
        {"upstream": "http://up.example/"},
        (
            (f"GET /{name('up')}", {"accept_language": "pt"}), (f"GET /{name('up')}?{ORIGINAL}", {}),
            (f"GET /{name('far')}", TEXT), (f"GET /-/explain/{name('up')}", TEXT),
            (f"GET /{name('up')}", {"cdn_loop": HOP.format("a/b")}),
            (f"GET /-/api/handles/{name('up')}", {}), (f"GET /-/timegate/{name('up')}", TEXT),
            (f"GET /{name('silent')}", TEXT),
        ),
    ),
    "pages": ({"pages": site_pages(), "registration": "form"}, IN_BROWSERS),
}  # fmt: skip


def reported(answered: Answered) -> str:
    """An answer as it stands in the file; of a page in HTML, its heading, its links, and its words, sorted."""
    shown = answered.body.decode()
    if answered.of("content-type") == "text/html; charset=utf-8":
        page = Page(answered.body)
        links = sorted(f"{where} = {text}" for where, text in page.links.items())
        shown = "\n".join((page.heading, *links, *sorted(page.words)))
    head = "".join(f"{name}: {value}\n" for name, value in answered.headers)
    head = re.sub("content-(security-policy|length): .*\n", "", head)
    return f"{answered.status}\n{head.replace(USUAL, '')}\n{shown}".rstrip().replace(__version__, "VERSION")


def written(scene: str, data: Path) -> Iterator[tuple[str, str]]:
    """Each request of a scene, and what came of it: the answer, and what other machines were asked."""
    settings, requests = SCENES[scene]
    found: list[tuple[str, str]] = []

    async def play(running: InProcess) -> None:
        for archive in (m16c(), m16d()):
            enter(running.registry, archive)
        for request, headers in requests:
            method, _, target = request.partition(" ")
            before = len(running.peers.requests)
            answered = await running.ask(target, method, headers)
            await asyncio.sleep(1.5)  # until what is to be acknowledged was
            more = [
                " ".join(("asked:", address, target, *(f"{name}: {value}" for name, value in sent), loop))
                for (address, target), (sent, loop) in list(
                    zip(running.peers.requests, running.peers.headers, strict=True)
                )[before:]
            ]
            words = "".join(f"  {name}: {value}" for name, value in headers.items())
            text = "\n".join((reported(answered), *map(str.rstrip, more)))
            found.append((f"{request[:200]}{words}", re.sub("(changes.word)=[0-9a-f]+", "\\1=WORD", text)))

        found.append(("what was counted", await counted(running)))
        found.append(("what was written down", await written_down(running)))

    with logged() as lines:
        run_with_false_clock(_in(data, play, settings))
    return iter([*found, ("what was logged", "\n".join(lines))])


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged meanwhile, from notices on."""
    lines: list[str] = []
    handler, log = logging.Handler(), logging.getLogger("ibi")
    handler.emit = lambda record: lines.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]  # shorter than a class
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


async def counted(running: InProcess) -> str:
    """All figures of the metrics but those that are 0, and distributions."""
    lines = (await running.ask("/-/metrics", headers={"host": "127.0.0.1"})).body.decode().split("\n")
    return "\n".join(line for line in lines if line and not re.search("^#|_bucket{|_info{| 0\\.0$", line))


async def written_down(running: InProcess) -> str:
    """The entries of the evidence, in their order."""
    evidence = running.stores.knowledge.evidence
    await asyncio.to_thread(evidence.flush)
    return "\n".join(
        " ".join((each.what, *(f"{name}={value}" for name, value in sorted(each.facts.items()))))
        for each in evidence.entries()
    )


async def _in(data: Path, play: Callable[[InProcess], Awaitable[None]], settings: dict[str, Any]) -> None:
    async with in_process(data, answer, **settings) as running:
        await play(running)


def kept() -> dict[str, list[tuple[str, str]]]:
    """The file: scene -> its requests, each with its answer."""
    scenes: dict[str, list[tuple[str, str]]] = {}
    for part in ANSWERS.read_text(encoding="utf-8").split("\n== ")[1:]:
        scene, _, rest = part.partition(": ")
        request, _, text = rest.partition("\n")
        scenes.setdefault(scene, []).append((request, text.rstrip("\n")))
    return scenes


@pytest.mark.parametrize("scene", SCENES)
def test_each_request_gets_the_whole_answer(scene: str, tmp_path: Path) -> None:
    expected = kept()[scene]
    found = list(written(scene, tmp_path))
    assert [request for request, _ in found] == [request for request, _ in expected]
    for (request, text), (_, known_text) in zip(found, expected, strict=True):
        assert text == known_text, request


if __name__ == "__main__":
    lines = []
    for each in SCENES:
        with TemporaryDirectory() as folder:
            lines += [f"\n== {each}: {request}\n{text}\n" for request, text in written(each, Path(folder))]
    ANSWERS.write_text("".join(lines), encoding="utf-8")
