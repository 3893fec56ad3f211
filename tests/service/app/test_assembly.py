"""Settings become running services, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.administration import Administration
from ibi.app import archive_admin, resolver_admin
from ibi.app.archive import archive_directory, archive_service
from ibi.app.resolver import check_resolver, open_registry, resolver_service
from ibi.cli import main
from ibi.errors import SetupError
from ibi.http.limits.window import FailureWindows
from ibi.http.server.service import Service, listen, run
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.cache import filters
from ibi.resolver.cache.hints import HintCache
from ibi.resolver.evidence.chain import Entry
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.runtime import reload
from ibi.runtime.settings import ResolverSettings
from ibi.web import administration_pages, resolver_pages
from support.network.up import Answer, get
from support.ports import free_port
from support.resolver.shared_files import empty_pages

FIRST, SECOND = "archive.example/first/2026/02.01.09.00", "archive.example/second/2026/02.01.09.30"
ITEM = "archive.example/first/2026/03.02.10.15"
KEY = "12345678901234567890"


def _do(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words


def _make(data: Path, archive_key: str = KEY) -> list[str]:
    """One resolver and one Archive with one item; their addresses."""
    port = free_port()
    resolver, archive = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    _do("resolver", "init", "--data", data / "r", "--address", resolver, "--allow-private-archives")
    _do(
        "archive", "init", "--data", data / "a", "--address", archive, "--ip", "127.0.0.1", "--service-ibi", FIRST,
        "--resolver", f"http://{resolver}", "--key", archive_key, "--admin", "admin@archive.example",
    )  # fmt: skip
    _do("resolver", "register", "--data", data / "r", "--archive-service", FIRST, "--key", KEY)
    (data / "item.txt").write_text("an item")
    (data / "items.jsonl").write_text(
        json.dumps({"rep": ITEM, "files": {"item.txt": "item.txt"}, "target": "item.txt"})
    )
    _do("archive", "import", "--data", data / "a", data / "items.jsonl")
    return [resolver, archive]


def _run(
    services: Callable[[], list[Service]], binds: list[str], then: Callable[[], Awaitable[None]]
) -> None:
    async def all_of_it() -> None:
        stop = asyncio.Event()

        async def act() -> None:
            try:
                await then()
            finally:
                stop.set()

        acting: list[asyncio.Task[None]] = []
        listeners = [listen(bind) for bind in binds]
        await run(services(), listeners, lambda _: acting.append(asyncio.create_task(act())), stop)
        await acting[0]

    asyncio.run(all_of_it())


async def _until(found: Callable[[], Answer], status: int) -> Answer:
    answer = await asyncio.to_thread(found)
    for _ in range(1200):
        if answer.status == status:
            break
        await asyncio.sleep(0.05)
        answer = await asyncio.to_thread(found)
    assert answer.status == status
    return answer


@pytest.mark.proves("REG-03", "REG-04", "REG-07", "RES-11", "SVC-20")
def test_an_archive_is_included_resolved_acknowledged_and_excluded(tmp_path: Path) -> None:
    binds = _make(tmp_path)

    async def act() -> None:
        found = await _until(lambda: get(f"http://{binds[0]}/{ITEM}"), 302)
        document = await asyncio.to_thread(get, found.location)
        assert (document.status, document.body) == (200, b"an item")

    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        binds,
        act,
    )
    registry = open_registry(tmp_path / "r")
    assert [each.included for each in registry.registered()] == [None]
    registry.close()
    with archive_directory(tmp_path / "a").catalogue() as catalogue:
        [item] = [each for each in catalogue.all() if str(each.forms.rep) == ITEM]
        assert catalogue.acknowledgments(item.number) == 1


def test_pages_come_in_the_language_of_the_reader_with_one_content_policy(tmp_path: Path) -> None:
    binds = _make(tmp_path)

    async def act() -> None:
        for bind, path in (
            (binds[0], "/"),
            (binds[0], "/nothing"),
            (binds[1], "/"),
            (binds[1], f"/-/item/{ITEM}"),
        ):
            page = await asyncio.to_thread(
                get, f"http://{bind}{path}", accept="text/html", accept_language="pt"
            )
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert page.headers["content-security-policy"].startswith("default-src 'none'")
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["content-language"] == "pt-BR"
            assert '<html lang="pt-BR">' in page.body.decode()

    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        binds,
        act,
    )


def test_neither_keys_nor_addresses_of_readers_reach_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    binds = _make(tmp_path)
    caplog.set_level(logging.DEBUG)

    async def act() -> None:
        await _until(lambda: get(f"http://{binds[0]}/{ITEM}", x_forwarded_for="203.0.113.77"), 302)

    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        binds,
        act,
    )
    assert caplog.records
    assert KEY not in caplog.text
    assert "203.0.113.77" not in caplog.text


def test_an_archive_with_another_key_is_served_but_never_included(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    binds = _make(tmp_path, archive_key="98765432109876543210")

    async def act() -> None:
        for _ in range(1200):
            if "not with this key" in caplog.text:
                break
            await asyncio.sleep(0.05)
        assert (await asyncio.to_thread(get, f"http://{binds[1]}/{ITEM}")).status == 302
        assert (await asyncio.to_thread(get, f"http://{binds[0]}/{ITEM}")).status in {404, 503}

    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        binds,
        act,
    )
    assert "not with this key" in caplog.text


def test_a_registration_made_meanwhile_is_picked_up(tmp_path: Path) -> None:
    binds = _make(tmp_path)
    _do("resolver", "unregister", "--data", tmp_path / "r", "--archive-service", FIRST)

    async def act() -> None:
        await asyncio.sleep(0.2)
        register = (
            "resolver",
            "register",
            "--data",
            tmp_path / "r",
            "--archive-service",
            FIRST,
            "--key",
            KEY,
        )
        await asyncio.to_thread(_do, *register)
        await _until(lambda: get(f"http://{binds[0]}/{ITEM}"), 302)

    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        binds,
        act,
    )


def test_filters_follow_no_settings_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(filters, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(reload, "LOOK_EVERY", 0.0)
    port = free_port()
    bind, private = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    _do("resolver", "init", "--data", tmp_path, "--address", bind)
    before = (tmp_path / ResolverSettings.FILE).read_text()
    assert "allow_private_archives = false" in before
    allowed = before.replace("allow_private_archives = false", "allow_private_archives = true")
    registry, service = open_registry(tmp_path), parse_ibi(FIRST)
    registry.register(service, KEY)
    request = InclusionRequest(private, service, "127.0.0.1", "1", "admin@archive.example", KEY)
    assert registry.include(request, registry.open_change(service), confirmed=True)
    registry.close()
    received: list[str] = []

    async def archive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await reader.readline()).decode())
        writer.close()

    async def write(settings: str) -> None:
        (tmp_path / "new").write_text(settings)
        (tmp_path / "new").replace(tmp_path / ResolverSettings.FILE)
        await asyncio.to_thread(get, f"http://{bind}/-/about")

    async def act() -> None:
        async with await asyncio.start_server(archive, *private.split(":")):
            await write(allowed.replace('upstream = ""', f'upstream = "http://{bind}/"'))
            assert "is this resolver itself" in caplog.text
            await asyncio.sleep(0.5)
            assert received == []
            await write(allowed)
            for _ in range(200):
                if received:
                    break
                await asyncio.sleep(0.05)
            assert received

    _run(lambda: [resolver_service(tmp_path)], [bind], act)


def test_a_folder_without_settings_is_a_sentence(tmp_path: Path) -> None:
    for make in (resolver_service, archive_service):
        with pytest.raises(SetupError, match="does not exist"):
            make(tmp_path)
    with pytest.raises(SetupError):
        open_registry(tmp_path)


def test_a_removal_by_the_holder_is_learned_again_and_none_by_another_one(tmp_path: Path) -> None:
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    forms, other = IBIForms.parse(f"rep {ITEM}"), "a.example/b/2011/01.01.00.00"
    log = Evidence(tmp_path / EVIDENCE_FILE, lambda: 1e9)
    log.original(forms, FIRST)
    log.original(IBIForms.parse(f"rep {other}"), FIRST)
    log.deleted(forms, FIRST)
    log.deleted(IBIForms.parse(f"rep {other}"), SECOND)
    log.close()
    check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert hints.of(ITEM) == (None, FIRST, False, True)
    assert hints.of(other) == (None, FIRST, False, False)
    # Who has it after it moved has not removed it.
    hints.moved([ITEM], SECOND)
    hints.flush()
    assert hints.of(ITEM) == (SECOND, SECOND, False, False)
    hints.close()


def test_who_showed_an_original_first_is_learned_again_when_the_hints_were_lost(tmp_path: Path) -> None:
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    log = Evidence(tmp_path / EVIDENCE_FILE, lambda: 1e9)
    log.original(IBIForms.parse(f"rep {ITEM}"), FIRST)
    log.close()
    check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert hints.of(ITEM) == (None, FIRST, False, False)
    hints.remember([ITEM], likely=SECOND)
    hints.close()
    check_resolver(tmp_path)  # what is there stays
    hints = HintCache(tmp_path / "hints")
    assert hints.of(ITEM) == (SECOND, FIRST, False, False)
    hints.close()


def test_hints_whose_rebuilding_was_interrupted_are_made_complete_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    names = [f"archive.example/first/2026/03.02.10.{minute}" for minute in range(10, 15)]
    log = Evidence(tmp_path / EVIDENCE_FILE, lambda: 1e9)
    for name in names:
        log.original(IBIForms.parse(f"rep {name}"), FIRST)
    log.close()

    entries = Evidence.entries

    def interrupted(evidence: Evidence) -> Iterator[Entry]:
        yield next(entries(evidence))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Evidence, "entries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert [hints.of(name).original for name in names] == [FIRST, None, None, None, None]
    hints.close()
    check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert {hints.of(name).original for name in names} == {FIRST}
    hints.close()


def test_hints_of_an_earlier_version_are_made_complete_and_no_former_holder_is_one_again(
    tmp_path: Path,
) -> None:
    """Such hints do not tell whether they are complete; another entry about the item may be damaged."""
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    third, missing = "archive.example/third/2026/02.01.10.00", "archive.example/first/2026/03.02.10.16"
    forms = IBIForms.parse(f"rep {ITEM}")
    log = Evidence(tmp_path / EVIDENCE_FILE, lambda: 1e9)
    log.original(forms, FIRST)
    log.original(IBIForms.parse(f"rep {missing}"), FIRST)
    log.migrated(forms, FIRST, SECOND)
    log.close()  # that it went on to the third is in a line that cannot be read any more
    hints = HintCache(tmp_path / "hints")
    hints.moved([ITEM], third)
    hints.remember([ITEM], likely=SECOND)
    hints.close()
    check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert hints.of(ITEM) == (SECOND, third, False, False)
    assert hints.of(missing) == (None, FIRST, False, False)
    hints.close()


def test_hints_that_are_found_damaged_at_the_start_are_filled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    log = Evidence(tmp_path / EVIDENCE_FILE, lambda: 1e9)
    log.original(IBIForms.parse(f"rep {ITEM}"), FIRST)
    log.close()
    HintCache(tmp_path / "hints").close()

    def damaged_once_open(path: Path) -> HintCache:
        hints = HintCache(path)
        empty_pages(path)
        return hints

    monkeypatch.setattr("ibi.app.resolver_stores.HintCache", damaged_once_open)
    check_resolver(tmp_path)
    hints = HintCache(tmp_path / "hints")
    assert hints.of(ITEM).original == FIRST
    assert hints.is_complete()
    hints.close()


def test_the_owner_of_a_resolver_can_enter_its_folders(tmp_path: Path) -> None:
    _do("resolver", "init", "--data", tmp_path, "--address", "127.0.0.1:9", "--allow-private-archives")
    check_resolver(tmp_path)
    FailureWindows(tmp_path / "attempts", lambda: 0.0).close()
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("hints", "attempts")} == {0o700}


def test_every_page_of_an_administration_is_in_its_menu_or_belongs_to_one_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = dict[str, list[str]]()

    class Recorded(Administration):
        def __init__(
            self, authentication: Any, handlers: Mapping[str, Any], *args: Any, **named: Any
        ) -> None:
            pages["archive" if "deposit" in handlers else "resolver"] = sorted(handlers)
            super().__init__(authentication, handlers, *args, **named)

    for module in (archive_admin, resolver_admin):
        monkeypatch.setattr(module, "Administration", Recorded)
    addresses = _make(tmp_path)
    _run(
        lambda: [resolver_service(tmp_path / "r"), archive_service(tmp_path / "a")],
        addresses,
        partial(asyncio.sleep, 0),
    )

    archive, resolver = (
        [word for _, group in each.MENU for word in group] for each in (administration_pages, resolver_pages)
    )
    assert pages == {"archive": sorted([*archive, *administration_pages.PARTS]), "resolver": sorted(resolver)}
