"""The alert rules and the Grafana board in docs/monitoring, tried with a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import pytest

from ibi.archive.service import metrics as of_archive
from ibi.cli import main
from ibi.minting import metrics as of_mint
from ibi.resolver.metrics import metrics as of_resolver
from support.archive.running_archive import running_archive
from support.concurrency.forked import start_ibi
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONITORING: Final = Path(__file__).parents[3] / "docs" / "monitoring"
_OPERATIONS: Final = _MONITORING.parent / "reference" / "operations.md"
_ALL_FAMILIES: Final = (of_resolver.FAMILIES, of_archive.FAMILIES, of_mint.FAMILIES)
_EXPOSED: Final = frozenset[str]().union(*(families.exposed for families in _ALL_FAMILIES))
_NAME: Final = re.compile(r"\bibi_(?:resolver|archive|mint)_\w+")
_ALTERNATIVES: Final = re.compile(r'\{__name__=~"ibi_\(([a-z|]+)\)_(\w+)"\}')


def _board() -> list[str]:
    board = json.loads((_MONITORING / "dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    return [query.replace("$__rate_interval", "1m") for query in queries]


def _names(query: str) -> set[str]:
    found = set(_NAME.findall(query))
    for programs, rest in _ALTERNATIVES.findall(query):
        found |= {f"ibi_{program}_{rest}" for program in programs.split("|")}
    return found


def _promtool(*words: str, at: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool here (Debian: prometheus)")
    done = subprocess.run(["promtool", *words], cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_good_and_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    shutil.copy(_MONITORING / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).parents[2] / "support" / "monitoring.yml", tmp_path)
    _promtool("check", "rules", "alerts.yml", at=tmp_path)
    _promtool("test", "rules", "monitoring.yml", at=tmp_path)


def test_each_name_in_the_board_and_in_the_documents_is_one_that_is_told() -> None:
    text = _OPERATIONS.read_text()
    for families in _ALL_FAMILIES:
        for family in (*families.all, *families.read):
            assert f"`{family.name}" in text, family.name
    named = set[str]().union(*map(_names, _board()))
    assert len(named) > 30
    assert named - _EXPOSED == set()
    rules = (_MONITORING / "alerts.yml").read_text()
    assert _names(rules) - _EXPOSED == set()
    assert len(_names(rules)) > 10
    assert rules.count("resumo:") == rules.count("summary:") == rules.count("alert:")


@contextmanager
def _serving(*words: str) -> Iterator[str]:
    """Where a program of ours answers."""
    with start_ibi([*words, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition("/")[2]
        finally:
            process.terminate()
            process.communicate(timeout=20)


@contextmanager
def _prometheus(folder: Path, targets: dict[str, str]) -> Iterator[str]:
    """The root of a Prometheus that asks these programs twice a second."""
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus here (Debian: prometheus)")
    scrapes = [
        f"  - {{job_name: ibi-{name}, metrics_path: /-/metrics, static_configs: [{{targets: ['{at}']}}]}}"
        for name, at in targets.items()
    ]
    settings = ["global: {scrape_interval: 500ms}", f"rule_files: ['{_MONITORING / 'alerts.yml'}']"]
    (folder / "prometheus.yml").write_text("\n".join([*settings, "scrape_configs:", *scrapes, ""]))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
    ]
    with subprocess.Popen([*command, f"--web.listen-address={address}", "--log.level=error"]) as process:
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()
            process.wait(20)


def _ask(url: str) -> Any:
    parts, end = urlsplit(url), time.monotonic() + 60
    while True:
        with closing(HTTPConnection(parts.netloc, timeout=20)) as connection:
            connection.request("GET", f"{parts.path}?{parts.query}")
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != 503 or time.monotonic() > end:  # while it starts
            break
        time.sleep(0.1)
    assert answer.status == 200, body
    return json.loads(body)["data"]


def _until_scraped(root: str, count: int) -> None:
    end, targets = time.monotonic() + 30, list[Any]()
    while time.monotonic() < end:
        try:
            targets = _ask(f"{root}/targets")["activeTargets"]
            found = _ask(f"{root}/query?query=" + quote("count(count_over_time(up[1m]) > 1)"))["result"]
        except OSError:  # it does not listen yet
            targets, found = [], []
        if found and found[0]["value"][1] == str(count) and all(each["health"] == "up" for each in targets):
            return
        time.sleep(0.2)
    pytest.fail(f"not all programs were scraped: {targets}")


def test_a_real_prometheus_asks_all_programs_and_understands_every_query(tmp_path: Path) -> None:
    resolver, mint, backups = (tmp_path / name for name in ("resolver", "mint", "backups"))
    named = ["--address", "resolver.test", "--service-ibi", "J8LNKB5R7W/3FUQHC5"]
    assert main(["resolver", "init", "--data", str(resolver), *named]) == 0
    (backups / "20261121T235300Z").mkdir(parents=True)
    (backups / "20261121T235300Z" / "backup.json").write_text("{}")
    assert main(["mint", "token", "--data", str(mint), "--name", "test"]) == 0
    minting = ["--data", str(mint), "--host", "mint.example.org"]
    with ExitStack() as stack:
        archive = stack.enter_context(running_archive(tmp_path / "archive", backup_folder=str(backups)))
        targets = {
            "resolver": stack.enter_context(_serving("resolver", "serve", "--data", str(resolver))),
            "archive": f"127.0.0.1:{archive.port}",
            "mint": stack.enter_context(_serving("mint", "serve", *minting)),
        }
        root = stack.enter_context(_prometheus(tmp_path, targets))
        _until_scraped(root, len(targets))
        stored = set(_ask(f"{root}/label/__name__/values"))
        assert _EXPOSED - stored == set()
        for query in _board():
            _ask(f"{root}/query?query={quote(query)}")
        rules = [rule for group in _ask(f"{root}/rules")["groups"] for rule in group["rules"]]
        assert len(rules) == (_MONITORING / "alerts.yml").read_text().count("alert:")
        for rule in rules:
            _ask(f"{root}/query?query={quote(rule['query'])}")
            assert rule["health"] in {"ok", "unknown"}, rule["lastError"]
