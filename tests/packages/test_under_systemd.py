"""What `ibi init` makes, under a real systemd: services that are restarted, reloaded and killed lose no request."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from support.systemd.machine import boot, make_tree
from support.systemd.probe import RESTARTS, UNITS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened on a machine with our units."""
    if os.geteuid() != 0 or None in map(shutil.which, ("systemd-nspawn", "mmdebstrap")):
        pytest.skip("needs root, systemd-nspawn and mmdebstrap")
    tree = make_tree(tmp_path_factory.mktemp("systemd"))
    result = boot(tree)
    assert "error" not in result, f"{result['error']}\n{result.get('journal')}"
    shutil.rmtree(tree)
    return result


def test_the_services_say_where_they_answer(found: dict[str, Any]) -> None:
    assert found["status"] == {
        "resolver": {"Type": "notify", "StatusText": "http://127.0.0.1:8080"},
        "archive": {"Type": "notify", "StatusText": "http://127.0.0.1:8081"},
    }


def test_the_sandbox_lets_the_program_check_a_password_and_read_the_clock(found: dict[str, Any]) -> None:
    assert found["sign in"] == 303
    assert "Operation not permitted" not in found["journal"]
    assert "Traceback" not in found["journal"]


@pytest.mark.parametrize("kind", UNITS)
def test_restarts_lose_no_request(found: dict[str, Any], kind: str) -> None:
    restarts = found[f"restarts of the {kind}"]
    assert len(restarts["took"]) == RESTARTS
    assert restarts["failed"] == {}
    assert min(restarts["sent"].values()) >= RESTARTS, restarts
    assert sum(restarts["sent"].values()) > 300


@pytest.mark.parametrize("kind", UNITS)
def test_a_reload_keeps_the_process(found: dict[str, Any], kind: str) -> None:
    reload = found[f"reload of the {kind}"]
    assert (reload["failed"], reload["ActiveState"]) == ({}, "active")
    assert reload["process before"] == reload["process after"]


@pytest.mark.parametrize("kind", UNITS)
def test_a_service_that_is_killed_is_started_again_and_readers_are_answered(
    found: dict[str, Any], kind: str
) -> None:
    killed = found[f"kill of the {kind}"]
    assert (killed["failed"], killed["ActiveState"], killed["NRestarts"]) == ({}, "active", "1")


def test_what_was_acknowledged_is_there(found: dict[str, Any]) -> None:
    assert found["deposits"]["lost"] == []
    assert found["deposits"]["acknowledged"] > 2 * RESTARTS


def test_the_newer_systemd_finds_no_fault_either(found: dict[str, Any]) -> None:
    assert found["faults"] == ""
    assert all(float(exposure) <= 2.0 for exposure in found["exposure"].values()), found["exposure"]


def test_the_doctor_finds_no_fault_at_the_end(found: dict[str, Any]) -> None:
    for report in found["doctor"].values():
        assert "ok          settings" in report
        assert [line for line in report.splitlines() if line.strip().startswith("fault")] == []


def test_a_web_server_of_the_group_reads_files_and_no_secrets(found: dict[str, Any]) -> None:
    assert found["shared"] == {"file": "shared", "secret": 1}
