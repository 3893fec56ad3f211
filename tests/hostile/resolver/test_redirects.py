"""URLs of Archives that lead nowhere, or back to the resolver (threat T13)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.ports import free_port
from support.resolver.one_item import IBI, answer_of, item, m16c, m16d
from support.resolver.process import make, serving
from support.scripted_archive import Behaviour, ScriptedArchive, ScriptedArchives

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "http://mtc-m16d.sid.inpe.br/x"
SERVICE = "liar.example/w/2020/01.01.00.00"

BACK = [
    f"http://urlib.net/{IBI}", "http://urlib.net", f"https://urlib.net/{IBI}", f"HTTP://URLIB.NET.:80/{IBI}?x",
    f"https://urlib.net:443/{IBI}", f"http://urlib.net:443/{IBI}", f"http://urlib.net:0080/{IBI}",
    f"http://www.urlib.net/{IBI}", f"http://[2A02::00:7]/{IBI}", f"http://[2a02:0:0:0::7]:80/{IBI}#x",
]  # fmt: skip
NO_HOSTS = [
    "http://./", "http://-/", "http://~/", "http://a..example/", "http://.a.example/", "http://a.example../",
    "http://_/", "http://a.-.example/", "http://a~b.example/", "http://../x", "http://-./", "http://__.example/",
]  # fmt: skip


@pytest.mark.proves("RES-12")
@pytest.mark.parametrize("urls", [BACK, NO_HOSTS], ids=["back", "no hosts"])
def test_no_reader_is_sent_back_here_or_to_no_host(tmp_path: Path, urls: list[str]) -> None:
    for number, url in enumerate(urls):
        (tmp_path / str(number)).mkdir()
        aliases = ("www.urlib.net", "[2a02::7]")
        archive = m16c(item(url=url))
        answer = answer_of(tmp_path / str(number), [archive], f"/{IBI}", aliases=aliases)
        assert (url, answer.status, answer.location) == (url, 502, None)
        assert archive.acknowledgments == []


def test_an_archive_that_leads_back_hides_none_that_leads_to_the_item(tmp_path: Path) -> None:
    liar, other = m16c(item(url=BACK[0])), m16d(item(m16d().service, url=GOOD, state="Copy"), after=0.05)
    answer = answer_of(tmp_path, [liar, other], f"/{IBI}")
    assert (answer.status, answer.location) == (302, GOOD)


@pytest.mark.parametrize(
    "url", ["http://urlib.net:8080/x", "http://net/x", "http://a_b.example/", "http://a-.example."]
)
def test_other_ports_and_odd_names_are_other_places(tmp_path: Path, url: str) -> None:
    assert answer_of(tmp_path, [m16c(item(url=url))], f"/{IBI}").location == url


def test_a_browser_does_not_go_round_at_a_resolver_on_this_machine(tmp_path: Path) -> None:
    make(tmp_path, address="localhost:8080", aliases=("resolver.test",))

    async def scene() -> None:
        port = free_port()
        archive = ScriptedArchive("liar", "liar.example", SERVICE)
        async with ScriptedArchives((archive,)):
            running = stack.enter_context(serving(tmp_path, bind=f"127.0.0.1:{port}"))
            await asyncio.to_thread(running.include, SERVICE, f"127.0.0.1:{archive.port}")
            for host in (
                "localhost:8080",
                f"127.0.0.1:{port}",
                f"localhost:{port}",
                f"[::ffff:7f00:1]:{port}",
            ):
                archive.manner = Behaviour(item(SERVICE, url=f"http://{host}/{IBI}"))
                answer = await asyncio.to_thread(running.get, f"/{IBI}")
                assert (host, answer.status) == (host, 502)

    with ExitStack() as stack:
        asyncio.run(scene())
