"""Items of which very much is said: they are shown like all others, and no other reader waits for that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.pages.models import ItemPage
from ibi.archive.service import service
from ibi.archive.service.service import ArchiveService
from ibi.http.server.service import Service
from support.archive.archive_fixture import SERVICE, NewArchive, listener, serving
from support.programs import Reply
from support.web.unnamed import RENDERER

SMALL, MANY, LONG, FULL = (f"a.example/b/2010/01.01.00.0{number}" for number in range(1, 5))
MESSAGE = f"/{SERVICE.main}?servicesubject=urlRequest&clientinformation.ipaddress=1.2.3.4&parsedibiurl.ibi="


@pytest.fixture
def archive(new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch) -> NewArchive:
    """Holds an ordinary item, and three of which much is said: in many statements, in a long one, by many files."""
    monkeypatch.setattr(service, "LARGE", 2000)
    archive = new_archive("127.0.0.1")
    (archive.data / "a.txt").write_bytes(b"a")
    items: list[dict[str, Any]] = [
        {"rep": SMALL, "url": "http://far.example/", "metadata": {"title": ["Small"]}},
        {"rep": MANY, "url": "http://far.example/", "metadata": {"title": ["Many"], "subject": ["a"] * 300}},
        {"rep": LONG, "url": "http://far.example/", "metadata": {"title": ["Long"], "subject": ["a" * 3000]}},
        {"rep": FULL, "files": {f"{at}.txt": "a.txt" for at in range(40)}, "metadata": {"title": ["Full"]}},
    ]
    assert archive.load(*items).added == len(items), archive.refused
    return archive


def test_all_that_is_asked_of_a_large_item_is_answered(archive: NewArchive) -> None:
    with serving(archive, listener()) as served:
        for name, title in ((MANY, "Many"), (LONG, "Long"), (FULL, "Full")):
            for path in ("/-/item/", "/-/metadata/"):
                page = served.get(f"{path}{name}", accept="text/html")
                assert (page.status, title in page.text) == (200, True)
                head = served.get(f"{path}{name}", "HEAD", accept="text/html")
                assert head.headers["etag"] == page.headers["etag"]
            assert f"<dc:title>{title}</dc:title>" in served.get(f"/-/metadata/{name}?format=oai_dc").text
            answer = served.get(MESSAGE + name.replace("/", "%2F"))
            assert (answer.status, f"ibi {{rep {name}}}" in answer.text) == (200, True)
            assert served.get(f"/{name}").status == 302
            assert title in served.get("/", accept="text/html").text
        assert served.get(f"/col/{FULL}/doc/7.txt").body == b"a"
        assert served.get(f"/col/{FULL}/doc/none.txt").status == 404


def test_while_a_large_item_is_shown_others_are_answered(archive: NewArchive) -> None:
    begun, go = threading.Event(), threading.Event()

    def render(page: Any, language: str) -> bytes:
        if isinstance(page, ItemPage) and str(page.holding.forms.main) == MANY:
            begun.set()
            assert go.wait(60)
        return RENDERER.render(page, language)

    renderer = replace(RENDERER, render=render)
    app = ArchiveService(
        archive.settings, archive.catalogue, archive.file_store, archive.clock.seconds, renderer
    )
    answers: list[Reply] = []
    with serving(archive, listener(), Service(app, close=app.close)) as served:
        reader = threading.Thread(
            target=lambda: answers.append(served.get(f"/-/item/{MANY}", accept="text/html"))
        )
        reader.start()
        try:
            assert begun.wait(30)
            assert served.get("/-/healthz").status == 200
            assert served.get(f"/-/item/{SMALL}", accept="text/html").status == 200
            assert served.get(MESSAGE + SMALL.replace("/", "%2F")).status == 200
        finally:
            go.set()
            reader.join()
    assert [each.status for each in answers] == [200]


@pytest.mark.parametrize("limit", ["MOST_WAITING", "MOST_OF_ONE"])
def test_only_so_many_wait_for_large_items(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(service, limit, 0)
    with serving(archive, listener()) as served:
        busy = served.get(f"/-/item/{LONG}")
        assert (busy.status, busy.headers["retry-after"]) == (503, "5")
        assert served.get(f"/-/item/{SMALL}").status == 200
