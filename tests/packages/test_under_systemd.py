"""What `ibi init` makes, under a real systemd: services that are restarted, reloaded and killed lose no request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.systemd.machine import boot, make_tree
from support.systemd.probe import RESTARTS, UNITS


# One test, because the machine takes a minute, and tests of one module run in several processes.
@pytest.mark.long
@pytest.mark.timeout(900)
def test_services_of_systemd_go_on_whatever_is_done_to_them(tmp_path: Path) -> None:
    if os.geteuid() != 0 or None in map(shutil.which, ("systemd-nspawn", "mmdebstrap")):
        pytest.skip("needs root, systemd-nspawn and mmdebstrap")
    tree = make_tree(tmp_path)
    found = boot(tree)
    shutil.rmtree(tree)
    assert "error" not in found, f"{found['error']}\n{found.get('journal')}"
    _the_services_say_where_they_answer(found)
    _the_sandbox_lets_the_program_do_its_work(found)
    for kind in UNITS:
        _restarts_lose_no_request(found[f"restarts of the {kind}"])
        _a_reload_keeps_the_process(found[f"reload of the {kind}"])
        _a_killed_service_starts_again_and_readers_are_answered(found[f"kill of the {kind}"])
    assert found["installed again"]["failed"] == {}
    # What was acknowledged is there.
    assert found["deposits"]["lost"] == []
    assert found["deposits"]["acknowledged"] > 2 * RESTARTS
    # A web server of the group reads files, and no secrets.
    assert found["shared"] == {"file": "shared", "secret": 1}
    _the_doctor_finds_no_fault(found)


def _the_services_say_where_they_answer(found: dict[str, Any]) -> None:
    assert found["status"] == {
        "resolver": {"Type": "notify", "StatusText": "http://127.0.0.1:8080"},
        "archive": {"Type": "notify", "StatusText": "http://127.0.0.1:8081"},
    }


def _the_sandbox_lets_the_program_do_its_work(found: dict[str, Any]) -> None:
    """It checks a password and reads the clock; the newer systemd there finds no fault in the units."""
    assert found["sign in"] == 303
    assert "Operation not permitted" not in found["journal"]
    assert "Traceback" not in found["journal"]
    assert found["faults"] == ""
    assert all(float(exposure) <= 2.0 for exposure in found["exposure"].values()), found["exposure"]


def _restarts_lose_no_request(restarts: dict[str, Any]) -> None:
    assert len(restarts["took"]) == RESTARTS
    assert restarts["failed"] == {}
    assert min(restarts["sent"].values()) >= RESTARTS, restarts
    assert sum(restarts["sent"].values()) > 300


def _a_reload_keeps_the_process(reload: dict[str, Any]) -> None:
    assert (reload["failed"], reload["ActiveState"]) == ({}, "active")
    assert reload["process before"] == reload["process after"]


def _a_killed_service_starts_again_and_readers_are_answered(killed: dict[str, Any]) -> None:
    assert (killed["failed"], killed["ActiveState"], killed["NRestarts"]) == ({}, "active", "1")


def _the_doctor_finds_no_fault(found: dict[str, Any]) -> None:
    for report in found["doctor"].values():
        assert "ok          settings" in report
        assert [line for line in report.splitlines() if line.strip().startswith("fault")] == []
