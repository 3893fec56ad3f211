"""Name, logo and colour of an institution: on every page of both services, changed by page, command and program."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ibi.runtime.settings.institution import Institution, data_url
from support.archive.administration_fixture import Librarian, administered_archive
from support.archive.archive_fixture import REP
from support.cli.archive_commands import until
from support.cli.in_process import ibi
from support.resolver.administration_fixture import administered_resolver
from support.web.html_page import Page

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
TEXTS = {
    "name": "Institute <&>", "name_pt": "Instituto", "subtitle": "Repository", "colour": "#f2b705",
    "welcome": "The valley\nIts maps,\nits theses.\n\nAll open.", "postal_address": "Some street, 4\n12000-000 Vale",
    "contact": "acervo@vale.example",
}  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[Librarian, Path]]:
    with administered_archive(tmp_path) as served:
        yield served.new_browser("root"), served.archive.data


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[tuple[Librarian, Path]]:
    with administered_resolver(tmp_path) as served:
        yield served.browser("root"), served.data


def named(reader: Librarian, data: Path, **texts: str) -> None:
    """Give the institution these texts, and wait until its pages show the name."""
    found = Institution.of(data).changed({**TEXTS, **texts})
    found.write(data)
    until(lambda: found.name in Page(reader.look("/-/admin").body).words)


@pytest.mark.parametrize("path", ["/", f"/-/item/{REP}", f"/-/files/{REP}", f"/-/metadata/{REP}", "/-/search?text=one",
                                  "/-/browse", "/-/nothing", "/-/admin", "/-/admin/items"])  # fmt: skip
def test_every_page_of_an_archive_has_its_name(archive: tuple[Librarian, Path], path: str) -> None:
    reader, data = archive
    named(reader, data)
    for language, name in (("en", "Institute <&>"), ("pt-BR", "Instituto")):
        answer = reader.look(path, language)
        page = Page(answer.body)
        assert name in page.words
        assert re.search(r"<title>[^<]+ – (.*)</title>", answer.text)
        assert "<&>" not in answer.text
        assert not {f"Archive 127.0.0.1:{reader.port}", f"Arquivo 127.0.0.1:{reader.port}"} & page.words


@pytest.mark.parametrize("path", ["/", "/-/find", "/-/status", "/-/about", "/x.example/y/2020/01.01.00.00", "/0",
                                  "/-/admin", "/-/explain/x.example/y/2020/01.01.00.00"])  # fmt: skip
def test_every_page_of_a_resolver_has_its_name(resolver: tuple[Librarian, Path], path: str) -> None:
    reader, data = resolver
    named(reader, data)
    for language, name in (("en", "Institute <&>"), ("pt-BR", "Instituto")):
        assert name in Page(reader.look(path, language).body).words


def test_the_front_page_welcomes_and_says_where_the_institution_is(archive: tuple[Librarian, Path]) -> None:
    reader, data = archive
    named(reader, data)
    page = reader.look("/")
    words = Page(page.body).words
    assert {"The valley", "Its maps, its theses.", "All open.", "Some street, 4", "12000-000 Vale"} <= words
    assert Page(page.body).links["mailto:acervo@vale.example"] == "acervo@vale.example"


@pytest.mark.parametrize(("kind", "path"), [("archive", "/-/about"), ("resolver", "/-/about")])
def test_what_an_institution_is_wants_and_records_is_one_click_away(
    kind: str, path: str, request: pytest.FixtureRequest
) -> None:
    reader, data = request.getfixturevalue(kind)
    texts = {"about": "A library.\n\nOf maps.", "policies": "All is kept.", "privacy": "Nothing is recorded."}
    named(reader, data, **texts, about_pt="Uma biblioteca.")
    page = Page(reader.look(path).body)
    assert {"A library.", "Of maps.", "All is kept.", "Nothing is recorded."} <= page.words
    for name in ("policies", "privacy"):
        assert f"{path}#{name}" in page.links
        assert f'id="{name}"' in reader.look(path).text
    assert {"Uma biblioteca.", "All is kept."} <= Page(reader.look(path, "pt-BR").body).words


def test_colours_and_pictures_are_fetched_from_addresses_that_change_with_them(
    archive: tuple[Librarian, Path],
) -> None:
    reader, data = archive
    named(reader, data, logo=data_url(SVG))
    text = reader.look("/").text
    sheet = re.search(r'<link rel="stylesheet" href="(/-/static/[0-9a-f]{12}/brand.css)">', text)
    logo = re.search(r'<img src="(/-/static/[0-9a-f]{12}/logo.svg)" alt="" width="44" height="44">', text)
    assert sheet
    assert logo
    for address, kind, content in (
        (sheet[1], "text/css; charset=utf-8", None),
        (logo[1], "image/svg+xml", SVG),
    ):
        got = reader.ask("GET", address)
        assert (got.status, got.headers["content-type"]) == (200, kind)
        assert content is None or got.body == content
        assert address.split("/")[3] == hashlib.sha256(got.body).hexdigest()[:12]
        assert got.headers["cache-control"] == "public, max-age=31536000, immutable"
        # A picture that is opened by itself runs nothing.
        assert got.headers["content-security-policy"].endswith("sandbox")
        assert got.headers["x-content-type-options"] == "nosniff"
    assert b"--accent:#816000;" in reader.ask("GET", sheet[1]).body
    assert f'<link rel="icon" href="{logo[1]}">' in text


def test_without_a_choice_nothing_of_an_institution_is_fetched(archive: tuple[Librarian, Path]) -> None:
    reader, _ = archive
    text = reader.look("/").text
    assert "brand.css" not in text
    assert "<img" not in text.partition("<main")[0]
    assert f"Archive 127.0.0.1:{reader.port}" in Page(reader.look("/").body).words
    for name in ("brand.css", "logo.svg"):
        assert reader.ask("GET", f"/-/static/{'0' * 12}/{name}").status == 404


def test_the_font_is_ours_unless_the_institution_wants_none(archive: tuple[Librarian, Path]) -> None:
    reader, data = archive
    found = re.search(r'href="(/-/static/[0-9a-f]{12}/font.css)"', reader.look("/").text)
    assert found
    font = re.search(r"url\((/-/static/[0-9a-f]{12}/hyperlegible.woff2)\)", reader.ask("GET", found[1]).text)
    assert font
    got = reader.ask("GET", font[1])
    assert (got.status, got.headers["content-type"], got.body[:4]) == (200, "font/woff2", b"wOF2")
    named(reader, data, font="system")
    assert "font.css" not in reader.look("/").text


def test_references_harvesters_and_feeds_call_an_archive_by_its_name(archive: tuple[Librarian, Path]) -> None:
    reader, data = archive
    until(lambda: reader.ask("GET", "/-/feed").status == 200)
    named(reader, data, about="What it keeps.")
    assert "Institute &lt;&amp;&gt;" in reader.ask("GET", "/-/feed").text
    identity = reader.ask("GET", "/-/oai?verb=Identify").text
    assert "<repositoryName>Institute &lt;&amp;&gt;</repositoryName>" in identity
    assert "What it keeps." in identity
    for path in (f"/-/metadata/{REP}?format=csl", f"/-/item/{REP}"):
        assert "Institute" in reader.ask("GET", path).text
    record = reader.ask(
        "GET", f"/-/oai?verb=GetRecord&metadataPrefix=oai_datacite&identifier=oai:127.0.0.1:{REP}"
    ).text
    assert "Institute &lt;&amp;&gt;" in record, record
    about = json.loads(reader.ask("GET", "/-/about", accept="application/json").text)
    assert about["institution"] == {"": "Institute <&>", "pt": "Instituto"}
    assert about["publisher"] == "Institute <&>"
    for language, name in (("en", "Institute <&>"), ("pt-BR", "Instituto")):
        feed = ET.fromstring(reader.ask("GET", "/-/feed", accept_language=language).body)  # noqa: S314 - our own document
        assert feed.findtext("{*}author/{*}name") == name
        assert {each.text for each in feed.iter("{http://purl.org/dc/elements/1.1/}publisher")} == {name}
        assert name in str(feed.findtext("{*}title"))
    named(reader, data, publisher="The Press")
    until(lambda: "The Press" in reader.ask("GET", f"/-/metadata/{REP}?format=csl").text)


Change = Callable[[Librarian, Path], object]


def by_page(reader: Librarian, _data: Path) -> object:
    reader.look("/-/admin/identity")
    form = [("name", "Instituto"), ("was.name", ""), ("about", "One.\r\n\r\nTwo."), ("colour", "ABC")]
    return {303: 200}.get(reader.send("/-/admin/identity", *form).status)


def by_command(name: str) -> Change:
    def change(_reader: Librarian, data: Path) -> object:
        words = ("--name", "Instituto", "--about", "One.\n\nTwo.", "--colour", "ABC")
        return 200 if ibi(name, "institution", "--data", data, *words).returncode == 0 else 500

    return change


@pytest.mark.parametrize("kind", ["archive", "resolver"])
@pytest.mark.parametrize("way", ["page", "command"])
def test_a_page_and_a_command_change_the_same(kind: str, way: str, request: pytest.FixtureRequest) -> None:
    reader, data = request.getfixturevalue(kind)
    change: Change = by_page if way == "page" else by_command(kind)
    assert change(reader, data) == 200
    assert Institution.of(data) == Institution(name="Instituto", about="One.\n\nTwo.", colour="#aabbcc")
    until(lambda: "Instituto" in Page(reader.look("/").body).words)


def test_a_page_changes_only_what_was_changed_in_it(archive: tuple[Librarian, Path]) -> None:
    reader, data = archive
    named(reader, data)
    before = Institution.of(data)
    page = reader.look("/-/admin/identity")
    shown = {name: getattr(before, name) for name in ("name", "welcome", "postal_address", "font")}
    form = [pair for name, text in shown.items()
            for pair in (("was." + name, text), (name, text.replace("\n", "\r\n")))]  # fmt: skip
    assert page.text.count("<textarea") == 9
    assert reader.send("/-/admin/identity", *form, ("subtitle", "Another")).status == 303
    assert Institution.of(data) == before.changed({"subtitle": "Another"})


@pytest.mark.parametrize("kind", ["archive", "resolver"])
def test_a_command_shows_what_there_is(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    _, data = request.getfixturevalue(kind)
    picture = tmp_path / "logo.svg"
    picture.write_bytes(SVG)
    made = ibi(kind, "institution", "--data", data, "--logo", picture, "--welcome", "A\nB", "--name", "N")
    assert made.stdout == f"name: N\nlogo: image/svg+xml, {len(SVG)} bytes\nwelcome: A / B\n"
    shown = ibi(kind, "institution", "--data", data).stdout.splitlines()
    assert {"name: N", "colour: -", "font: ours", f"logo: image/svg+xml, {len(SVG)} bytes"} <= set(shown)
    found = json.loads(ibi(kind, "institution", "--data", data, "--json").stdout)
    assert found["logo"] == data_url(SVG)
    assert ibi(kind, "institution", "--data", data, "--logo", "").stdout == "logo: -\n"
    assert Institution.of(data).logo == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--logo", "nowhere.png"), "nowhere.png cannot be read: No such file or directory"),
        (
            ("--colour", "green"),
            "a colour is # and six hexadecimal digits, such as #0b6b5d, and this is not: green",
        ),
        (("--font", "gothic"), "ibi: font is one of: ours, system"),
    ],
)
def test_bad_input_is_one_sentence(
    archive: tuple[Librarian, Path], words: tuple[str, str], sentence: str
) -> None:
    _, data = archive
    typed = ibi("archive", "institution", "--data", data, *words)
    assert sentence in typed.stderr.replace("\n", " ")
    assert not Institution.exists(data)


def test_a_picture_that_is_too_large_is_refused_before_it_is_read(
    archive: tuple[Librarian, Path], tmp_path: Path
) -> None:
    _, data = archive
    picture = tmp_path / "logo.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n".ljust(65_537, b"x"))
    typed = ibi("archive", "institution", "--data", data, "--logo", picture)
    assert (typed.returncode, typed.stderr) == (1, "ibi: --logo is larger than 65536 bytes\n")


def test_a_faulty_file_leaves_the_pages_as_they_were(archive: tuple[Librarian, Path]) -> None:
    reader, data = archive
    named(reader, data)
    (data / Institution.FILE).write_text("name = 3\n")
    time.sleep(0.7)  # longer than the settings are believed
    assert "Institute <&>" in Page(reader.look("/").body).words


def test_the_pages_of_a_resolver_have_a_switch_of_languages(resolver: tuple[Librarian, Path]) -> None:
    reader, _ = resolver
    for path in ("/", "/-/about", "/-/status"):
        assert 'href="?lang=pt-BR"' in reader.look(path).text
        assert '<html lang="pt-BR">' in reader.look(f"{path}?lang=pt").text
    found = reader.look("/-/find?text=see+urlib.net/www/2011/03.29.20.55").text
    assert 'href="?text=see+urlib.net%2Fwww%2F2011%2F03.29.20.55&amp;lang=pt-BR"' in found
