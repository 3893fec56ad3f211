"""What is noted of where a copy comes from, whole, after each way in which an item becomes one."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.store.tables.copies import CopySource
from ibi.errors import HoldingError
from ibi.identifier.forms import parse_ibi
from support.archive.replication_fixture import NAME, Archive, Elsewhere, make_archive

FAR = "far.example/w/2020/01.01.00.00"
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def there(tmp_path: Path) -> Archive:
    """The Archive of the original."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def here(tmp_path: Path, there: Archive) -> Archive:
    """The Archive of the copy; both know each other."""
    made = make_archive(tmp_path, 2)
    made.knows(there, "giver")
    there.knows(made, "receiver", made.lets_in("giver"))
    return made


def service(archive: Archive) -> str:
    return str(archive.settings.service.main)


def noted(archive: Archive) -> CopySource:
    """The row about the copy, but for the moment of the comparison."""
    found = archive.source()
    assert MOMENT.fullmatch(found.checked)
    return replace(found, checked="")


def test_a_copy_from_an_archive_has_its_service_and_its_etag(there: Archive, here: Archive) -> None:
    original = there.put()
    with there.served() as served:
        here.copy(archive=f"{there.root}/")
        tag = served.get(f"/-/api/items/{NAME}").headers["etag"]
    source = CopySource(
        archive=there.root, service=service(there), original=original.timestamp, tag=tag, private=True
    )
    assert noted(here) == source
    problem = HoldingError("{archive} has removed {name}", archive=there.root, name=NAME)
    with Elsewhere().served() as gone:
        pass
    assert (source.place, replace(source, archive="", url=gone).place) == (there.root, gone)
    assert replace(source, since="x", checked="y", problem=problem).facts() == {
        "archive": there.root, "service": service(there), "timestamp": original.timestamp, "checked": "y",
        "equal": False, "since": "x", "compared": True, "problem": str(problem),
    }  # fmt: skip
    assert [(each.what, each.who, each.detail) for each in here.events()] == [
        ("copied", "otto", {"source": there.root})
    ]


@pytest.mark.parametrize("is_known", [False, True])
def test_a_copy_of_one_file_has_its_url_and_what_the_resolver_knows(here: Archive, *, is_known: bool) -> None:
    far = Elsewhere()
    far.pages["/x%20y"] = (200, {"etag": '"1"', "last-modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, b"x")
    pairs = {
        "ibi.archiveservice": ["rep", FAR], "ibi": ["rep", NAME], "timestamp": "2019-12-31T00:00:00Z",
        "contenttype": "Metadata",
    }  # fmt: skip
    statement = {"archive": "one", "pairs": pairs if is_known else {}}
    explanation = {"outcome": {"archive": "one"}, "rounds": [{"statements": []}, {"statements": [
        {"archive": "another", "pairs": {}}, statement,
    ]}]}  # fmt: skip
    far.pages[f"/-/explain/{NAME}?ibiurl.requireditemstatus=Original"] = (
        200, {}, json.dumps(explanation).encode()
    )  # fmt: skip
    with far.served() as root:
        far.leads(NAME, f"{root}/x%20y")
        copy = here.copy(resolver=root)
        (accepted,) = (sent["accept"] for path, sent in far.requests if path.startswith("/-/explain/"))
        assert accepted == "application/json"
        timestamp = "2019-12-31T00:00:00Z" if is_known else "2020-01-01T00:00:00Z"
        source = CopySource(
            archive="", url=f"{root}/x%20y", original=timestamp, tag='"1"', compared=False, private=True
        )
        assert noted(here) == replace(source, service=FAR if is_known else "")
        assert (copy.timestamp, copy.target, copy.content_type.value) == (
            timestamp, "x%20y", "Metadata" if is_known else "Data"
        )  # fmt: skip
        assert [(each.what, each.detail) for each in here.events()] == [("copied", {"source": source.url})]
        far.pages["/x%20y"] = (200, {}, b"xy")
        assert here.refresh(resolver=root).tag == ""
    assert [(each.what, each.detail) for each in here.events()][1:] == [("refreshed", {"source": source.url})]


def test_the_giver_of_an_original_notes_the_receiver_and_the_receiver_notes_nothing_any_more(
    there: Archive, here: Archive
) -> None:
    original = there.put()
    with there.served(), here.served(), there.giver() as giver:
        offered = giver.offer(parse_ibi(NAME), "receiver", "maria")
        done, _ = asyncio.run(giver.advance(offered))
        assert (done.service, done.problem) == (service(here), None)
    assert noted(there) == CopySource(
        archive=here.root, service=service(here), original=original.timestamp, private=True
    )
    with here.directory.catalogue() as catalogue, catalogue.reading() as run:
        assert run("SELECT count(*) FROM copied").fetchone()[0] == 0
    assert [(each.what, each.who, each.detail) for each in there.events()][1:] == [
        ("given", "maria", {"to": here.root, "service": service(here)})
    ]
    assert [(each.what, each.who, each.detail) for each in here.events()] == [
        ("copied", "giver", {"source": there.root}),
        ("deposited", "maria", {"archive": service(there), **there.events()[0].detail}),
        ("received", "giver", {"giver": there.root}),
    ]


def test_a_receiver_that_has_the_copy_and_not_yet_the_proof_notes_the_giver(
    there: Archive, here: Archive
) -> None:
    original = there.put()

    async def stage() -> None:
        from ibi.archive.model.handover import GiverMessage
        from ibi.archive.replication.giving import write_message
        from ibi.archive.replication.receiving import Receiver

        with there.giver() as giver, here.item_store() as item_store:
            offered = giver.offer(parse_ibi(NAME), "receiver", "maria")
            receiver = Receiver(item_store, here.data, 1 << 20)
            message = write_message(offered, GiverMessage.PROPOSE, there.root, original)
            answer = await receiver.answer(message, "giver")
            await receiver.close()
        assert (answer["transfer"], answer["reply"], answer["problem"], answer["service"]) == (
            offered.id, "staged", "", service(here)
        )  # fmt: skip

    with there.served():
        asyncio.run(stage())
    assert noted(here) == CopySource(
        archive=there.root, service=service(there), original=original.timestamp, private=True
    )
