"""The image and the services of packaging/container: built, composed and used as the how-to page has it.

The page is typed from its first command to its last, on a machine where its names lead to a public address and an
authority gives certificates by ACME. The base of the image comes from Debian, Caddy from the lock: no hub is asked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engines.debian import root_filesystem, wheels
from support.engines.world import ADDRESS, DIRECTORY, PATH, World, what_is_missing, world
from support.packages.checkout import copied_checkout
from support.pages.blocks import blocks
from support.pages.runner import SHELL, Shell, run_page, shell
from support.style.layers import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

PAGES = {tree: ROOT / "docs" / tree / "how-to/container.md" for tree in ("pt-BR", "en")}
SHOWN = {"203.0.113.7": ADDRESS, "https://acme.example.org/dir": DIRECTORY}
"""What the page shows, and what this machine has instead."""
SERVICES = ("resolver", "first", "second")
RESOLVER, ARCHIVE = "resolvedor.example.org", "arquivo.example.org"
BASE = "localhost/debian:trixie-slim"  # found by the short name that the recipe has
CADDY = "docker.io/library/caddy:2.11"
NO_RIGHTS = "0000000000000000"
NET_BIND_SERVICE = "0000000000000400"

ENGLISH = {
    "resolvedor.example": "resolver.example",
    "arquivo.example": "archive.example",
    "museu.example": "museum.example",
    "relatorio.txt": "report.txt",
    "Relatório anual do instituto": "Annual report of the institute",
    "Relatório anual": "Annual report",
    "--language pt": "--language en",
    "LANGUAGE=pt_BR": "LANGUAGE=en",
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[World]:
    """A machine that has the images which the recipe and the services name."""
    if missing := what_is_missing():
        pytest.skip(f"needs {', '.join(missing)}")
    with world(tmp_path / "world") as made:
        base = root_filesystem("trixie", "python3", "python3-venv", "ca-certificates")
        caddy = tmp_path / "caddy"
        caddy.mkdir()
        shutil.copy(str(shutil.which("caddy", path=PATH)), caddy / "caddy")
        recipe = f"FROM {BASE}\nCOPY caddy /usr/bin/caddy\nENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/config\n"
        (caddy / "Containerfile").write_text(recipe)
        done(made, tmp_path, f"podman import --quiet {base} {BASE}")
        done(made, tmp_path, f"buildah build --quiet --format docker --tag {CADDY} caddy")
        yield made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a checkout has for the page."""
    return copied_checkout(tmp_path / "ibi")


def done(machine: World, folder: Path, text: str) -> str:
    """Run lines of a shell that must succeed, and return what they print."""
    status, out, err = machine.run(folder, text)
    assert status == 0, f"{text}\n{out}{err}"
    return out


def test_both_pages_have_the_same_examples() -> None:
    def examples(tree: str) -> list[tuple[str, str, dict[str, str]]]:
        return [(block.language, block.text, block.notes) for block in blocks(PAGES[tree])]

    portuguese = examples("pt-BR")
    for here, there in ENGLISH.items():
        portuguese = [(language, text.replace(here, there), notes) for language, text, notes in portuguese]
    assert portuguese == examples("en")
    assert len(portuguese) > 10


def test_the_page_leads_to_services_that_last(machine: World, checkout: Path) -> None:
    compose = checkout / "packaging/container"
    shutil.copy(machine.authorities, compose / "authority.pem")
    environment = {
        **machine.environment,
        "LANGUAGE": "pt_BR",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels()),
    }
    entering = [*machine.entering(checkout), *SHELL]
    with shell(checkout, environment, entering, timeout=400) as at:
        run_page(PAGES["pt-BR"], at, checkout, SHOWN)
        name = at.run("echo $name").strip()
        the_links_lead_to_the_document(at, name)
    nothing_has_rights(machine, compose)
    health_is_checked(machine, compose)
    nothing_is_wrong(machine, compose)
    a_restart_loses_nothing(machine, compose)
    notices_are_accepted(machine, compose)
    a_wrong_setting_is_one_sentence(machine, compose)
    a_lost_volume_is_restored(machine, compose, name)


def the_links_lead_to_the_document(at: Shell, name: str) -> None:
    """After `down` and `up` of the page; by http, with modifiers, and the name of a stranger."""
    curl = "curl -sSfL --retry 30 --retry-delay 1 --retry-all-errors"
    for url in (f"https://{RESOLVER}/{name}", f"http://{RESOLVER}/{name}", f"https://{RESOLVER}/{name}!"):
        assert at.run(f"{curl} '{url}'") == "Relatório anual do instituto\n"
    metadata = at.run(f"{curl} 'https://{RESOLVER}/{name}:(oai_dc)'")
    assert "<dc:title>Relatório anual</dc:title>" in metadata
    secure = at.run(f"curl -sSI https://{ARCHIVE}/").lower()
    assert "strict-transport-security: max-age=31536000" in secure
    assert "strict-transport-security" not in at.run(f"curl -sSI http://{ARCHIVE}/").lower()
    assert at.run("curl -sS -o /dev/null -w '%{http_code}' http://stranger.example.org/") == "404"


def nothing_has_rights(machine: World, folder: Path) -> None:
    """No root, no capability (Caddy has one), no new privileges, and a file system that cannot be written."""
    look = (
        "id -u; grep -h -E ^Cap[EB] /proc/1/status; grep NoNewPrivs /proc/1/status; touch /opt/x 2>&1 || true"
    )
    for service in (*SERVICES, "caddy"):
        user, effective, bounding, privileges, written = done(
            machine, folder, f"podman exec ibi_{service}_1 sh -c '{look}'"
        ).splitlines()
        rights = NET_BIND_SERVICE if service == "caddy" else NO_RIGHTS
        assert [each.split()[-1] for each in (effective, bounding, privileges)] == [rights, rights, "1"]
        assert "Read-only file system" in written
        assert (user == "0") is (service == "caddy")
    writing = "import tempfile as t; t.TemporaryFile().write(b'x'); t.TemporaryFile(dir='/data').write(b'x')"
    done(machine, folder, f'podman exec ibi_first_1 python -c "{writing}"')


def health_is_checked(machine: World, folder: Path) -> None:
    for service in SERVICES:
        done(machine, folder, f"podman healthcheck run ibi_{service}_1")
    done(machine, folder, "podman run --detach --name idle --init localhost/ibi sleep 600")
    assert machine.run(folder, "podman healthcheck run idle")[0] == 1
    done(machine, folder, "podman rm --force --time 0 idle")


def nothing_is_wrong(machine: World, folder: Path) -> None:
    """The doctor finds no fault, labels are given after the containers were replaced, and backups are there."""
    for service in SERVICES:
        found = json.loads(done(machine, folder, f"podman exec ibi_{service}_1 ibi doctor --json"))
        assert (found["faults"], service) == (0, service), found
    listed = done(machine, folder, "podman exec ibi_resolver_1 env LANGUAGE=en ibi resolver archives")
    assert [line.split()[-1] for line in listed.splitlines()] == ["included", "included"]
    for archive in ("first", "second"):
        assert done(machine, folder, f"podman exec ibi_{archive}_1 ls /backups/{archive}").split()


DEPOSITING = """\
for i in $(seq 15); do
    curl -sS --max-time 60 -o reply-{client}-$i.json -w '%{{http_code}}\\n' -H "Authorization: Bearer {token}" \
        -F 'item={{"metadata":{{"title":["Item"]}}}};type=application/json' \
        -F "file=@compose.yaml;filename=report.txt" https://{host}/-/api/items
done
"""


def a_restart_loses_nothing(machine: World, folder: Path) -> None:
    """Two clients deposit while the Archive gets SIGTERM, ends with 0 and is started again."""
    done(machine, folder, "podman exec ibi_first_1 ibi archive set --granularity 0.1")
    token = done(machine, folder, "podman exec ibi_first_1 ibi archive token add loader --scope deposit")
    text = [
        DEPOSITING.format(client=client, token=token.strip(), host=ARCHIVE) for client in ("one", "another")
    ]
    clients = [machine.start(folder, each) for each in text]
    ended = done(
        machine,
        folder,
        "sleep 1; podman stop --time 30 ibi_first_1 > /dev/null; "
        "podman inspect --format '{{.State.ExitCode}}' ibi_first_1; podman start ibi_first_1 > /dev/null",
    )
    assert ended.strip() == "0"
    printed = [client.communicate() for client in clients]
    assert [out.split() for out, _ in printed] == [["201"] * 15] * 2, printed
    names = {json.loads(path.read_bytes())["rep"] for path in folder.glob("reply-*.json")}
    held = done(machine, folder, "podman exec ibi_first_1 ibi archive list --json").splitlines()
    assert len(names) == 30
    assert names <= {json.loads(line)["rep"] for line in held}
    assert len(held) == 30 + 2


def notices_are_accepted(machine: World, folder: Path) -> None:
    """The resolver accepts the notices of an Archive on the same server, which come by the public name."""
    for archive in ("first", "second"):
        assert "is not told what changes" not in done(machine, folder, f"podman logs ibi_{archive}_1 2>&1")


def a_wrong_setting_is_one_sentence(machine: World, folder: Path) -> None:
    for variable, sentence in (
        ("IBI_ARCHIVE_PAGE_RATE=much", "IBI_ARCHIVE_PAGE_RATE must be a number"),
        ("IBI_ARCHIVE_PAGE_RAT=1", "IBI_ARCHIVE_PAGE_RAT: there is no setting page_rat"),
        ("IBI_DATA=/nowhere", "/nowhere/archive.toml does not exist: nothing was made here with `init` yet"),
    ):
        run = f"podman run --rm --no-healthcheck --env {variable} --volume ibi_second:/data localhost/ibi"
        status, out, err = machine.run(folder, f"{run} ibi archive serve --bind 0.0.0.0:8080")
        assert (status, out, err) == (1, "", f"ibi: {sentence}\n")


def a_lost_volume_is_restored(machine: World, folder: Path, name: str) -> None:
    """As the page has it; the item is back, an original to be settled first, and labels are given again."""
    restoring = [block.text for block in blocks(PAGES["pt-BR"]) if block.language == "bash"]
    assert len(restoring) == 2
    for text in restoring:
        done(machine, folder, f"set -eu\n{text}")
    done(machine, folder, "podman exec ibi_first_1 ibi archive settle --all")
    curl = "curl -sSfL --retry 60 --retry-delay 1 --retry-all-errors"
    assert done(machine, folder, f"{curl} https://{RESOLVER}/{name}") == "Relatório anual do instituto\n"
    done(
        machine,
        folder,
        "podman exec ibi_first_1 ibi archive deposit --title Further --url https://example.org/",
    )
