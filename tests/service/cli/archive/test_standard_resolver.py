"""An Archive at a resolver that speaks the messages of the standard and nothing else: no page tells who it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibi.app.doctor.doctor import Checkup, CheckupOptions
from ibi.cli import main
from ibi.minting.machine import this_machine
from support.archive.messages import acknowledgment, request
from support.cli.archive_commands import get, ibi, make_archive, serving, shown, until
from support.ports import free_port
from support.resolver.standard_resolver import StandardResolver

SERVICE = "J8LNKB5R7W/3FUQHC5"
ITEM = "a.example/b/2010/01.01.00.00"


@pytest.fixture
def resolver() -> Iterator[StandardResolver]:
    with StandardResolver(SERVICE, "1" * 20).running() as made:
        yield made


def standing(data: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    [found] = shown(data, capsys)["resolvers"]
    return dict(found)


@pytest.mark.proves("MSG-02", "REG-03", "REG-04", "REG-07", "SVC-20")
def test_a_resolver_of_another_make_is_joined_acknowledges_and_is_left(
    resolver: StandardResolver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port = tmp_path / "w", free_port()
    base = f"{resolver.url}/{SERVICE}"
    service = make_archive(data, port, "--resolver", base, "--key", resolver.key)
    resolver.paths.clear()  # the doctor has looked for a page
    items = tmp_path / "items.jsonl"
    items.write_text(json.dumps({"rep": ITEM, "url": "http://far.example/"}))
    ibi("archive", "import", "--data", data, items)
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: standing(data, capsys)["standing"] == "included")
        assert standing(data, capsys)["service"] == SERVICE
        assert resolver.included == {service: f"127.0.0.1:{port}"}
        target = request(ITEM).replace("archive.example/w/2020/01.01.00.00", service)
        pairs = get(port, target)[1].decode()
        url_key = pairs.partition("urlkey ")[2].split()[0]
        acknowledged = acknowledgment(url_key).replace("archive.example/w/2020/01.01.00.00", service)
        assert get(port, acknowledged)[0] == 200
        ibi("archive", "deposit", "--data", data, "--title", "T", items)  # of which nothing is said there
        ibi("archive", "switch", "off", "--data", data)
        until(lambda: not resolver.included)
        ibi("archive", "switch", "on", "--data", data)
        until(lambda: resolver.included)
        ibi("archive", "leave", "--data", data, "--resolver", base)
        until(lambda: not resolver.included)
        until(lambda: shown(data, capsys)["resolvers"] == [])
    assert "/-/about" not in resolver.paths
    assert set(resolver.subjects) == {"inclusionRequest", "exclusionRequest"}


def test_without_the_ibi_of_its_service_everything_says_what_is_missing(
    resolver: StandardResolver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, port = tmp_path / "w", free_port()
    make_archive(data, port, "--resolver", resolver.url, "--key", resolver.key)
    with serving("--data", data, "--bind", f"127.0.0.1:{port}"):
        until(lambda: "ibi archive join --resolver http://HOST/IBI" in standing(data, capsys)["problem"])
        assert resolver_finding(data).endswith(
            f"what answers at {resolver.url} does not tell the IBI of a resolver's service (404)"
        )
        ibi("archive", "join", "--data", data, "--resolver", f"{resolver.url}/{SERVICE}")
        until(lambda: standing(data, capsys)["standing"] == "included")
        assert f"that {SERVICE} is its service is what the settings say" in resolver_finding(data)


def resolver_finding(data: Path) -> str:
    """What the doctor says of the resolver."""
    found = Checkup(data, this_machine(), CheckupOptions()).findings()
    return next(str(each.sentence) for each in found if each.name == "resolver")


@pytest.mark.parametrize("path", ["no-ibi", "a b/c", "J8LNKB5R7W/3FUQHC5?x=1", "%41/x", "x" * 500])
def test_what_follows_the_root_is_an_ibi(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "w"
    make_archive(data, free_port())
    capsys.readouterr()
    words = (
        "archive",
        "join",
        "--data",
        str(data),
        "--resolver",
        f"http://resolver.example/{path}",
        "--json",
    )
    assert main(list(words)) != 0
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 300
    assert shown(data, capsys)["resolvers"] == []


def test_a_key_that_is_changed_and_a_move_to_the_first_place_keep_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "w"
    make_archive(data, free_port(), "--resolver", "http://one.example/J8LNKB5R7W/3FUQHC5")
    two = "http://two.example/a.example/b/2010/01.01.00.00"
    ibi("archive", "join", "--data", data, "--also", "--resolver", two)
    ibi("archive", "join", "--data", data, "--also", "--resolver", "http://two.example", "--key", "2" * 20)
    seen = {each["url"]: each["service"] for each in shown(data, capsys)["resolvers"]}
    assert seen == {"http://one.example": SERVICE, "http://two.example": ITEM}
    ibi("archive", "leave", "--data", data, "--resolver", "http://one.example")
    seen = {each["url"]: each["service"] for each in shown(data, capsys)["resolvers"] if each["service"]}
    assert seen == {"http://two.example": ITEM}
    assert json.dumps(ITEM) in (data / "archive.toml").read_text()
