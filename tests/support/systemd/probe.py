"""What a machine under systemd does with our units: run inside it, as root, by `ibi-probe.service`.

Readers ask a resolver and an Archive, and a program deposits items, while both services are restarted and killed. What
came of it is written as JSON. Needs nothing but Python and `ibi`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode

IBI = "/opt/ibi/bin/ibi"
RESOLVER, ARCHIVE = "resolver.example.org", "archive.example.org"
UNITS = {"resolver": f"ibi-resolver@{RESOLVER}.service", "archive": f"ibi-archive@{ARCHIVE}.service"}
PORTS = {"resolver": 8080, "archive": 8081}
DATA = {"resolver": f"/var/lib/ibi/resolver/{RESOLVER}", "archive": f"/var/lib/ibi/archive/{ARCHIVE}"}
SERVICE = f"{ARCHIVE}/probe/2026/02.01.09.00"
HOSTS = {"resolver": RESOLVER, "archive": ARCHIVE}
RESTARTS = 5
_TIMEOUT = 40  # seconds until an answer is given up

Found = dict[str, object]


def run(*words: str, user: str = "") -> str:
    """Run a command, perhaps as a user; its output. Raises RuntimeError with all that it said."""
    command = ["runuser", "-u", user, "--", *words] if user else list(words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def ibi(*words: str) -> str:
    """One of our commands, as the user of the services."""
    return run(IBI, *words, user="ibi")


def request(
    kind: str,
    method: str,
    target: str,
    body: bytes | None = None,
    *,
    kept: HTTPConnection | None = None,
    **headers: str,
) -> tuple[int, str, bytes]:
    """One request, on a connection of its own unless it is `kept`: status, Location, body. Raises OSError."""
    connection = kept or HTTPConnection("127.0.0.1", PORTS[kind], timeout=_TIMEOUT)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, body, {"Host": HOSTS[kind], **given})
        reply = connection.getresponse()
        return reply.status, reply.getheader("Location") or "", reply.read()
    except HTTPException as error:
        raise ConnectionError(repr(error)) from error
    finally:
        if kept is None:
            connection.close()


class Clients:
    """Readers and a depositor, each in a thread, and what became of their requests."""

    def __init__(self, item: str, token: str) -> None:
        self.item, self.token = item, token
        self.over = threading.Event()
        self.again = False
        """Whether a reader whose connection breaks asks once more, as browsers do."""
        self.asked: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.longest = 0.0
        self.deposited: list[str] = []
        self._threads = [
            *(
                threading.Thread(target=self._read, args=(name, *what))
                for name, what in self._readers().items()
            ),
            threading.Thread(target=self._deposit),
        ]

    def _readers(self) -> dict[str, tuple[str, str, int, bool]]:
        return {
            "click": ("resolver", f"/{self.item}", 302, False),
            "kept click": ("resolver", f"/{self.item}", 302, True),
            "page": ("archive", f"/-/item/{self.item}", 200, False),
            "kept page": ("archive", f"/-/item/{self.item}", 200, True),
            "front page": ("archive", "/", 200, False),
        }

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self.over.set()
        for thread in self._threads:
            thread.join()

    def _read(self, name: str, kind: str, target: str, wanted: int, keep: bool) -> None:
        kept = HTTPConnection("127.0.0.1", PORTS[kind], timeout=_TIMEOUT) if keep else None
        while not self.over.is_set():
            self.asked[name] += 1
            began = time.monotonic()
            try:
                try:
                    status, _, body = request(kind, "GET", target, kept=kept)
                except OSError:
                    if not self.again:
                        raise
                    self.retried[name] += 1
                    status, _, body = request(kind, "GET", target)
                if status != wanted:
                    self.failed[f"{name}: {status} {body[:200]!r}"] += 1
            except OSError as error:
                self.failed[f"{name}: {error!r}"] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.02)
        if kept is not None:
            kept.close()

    def _deposit(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            self.asked["deposit"] += 1
            fields = {
                "title": f"Deposit {number}",
                "url": f"https://example.org/{number}",
                "key": f"probe-{number}",
            }
            headers = {"Authorization": f"Bearer {self.token}", "Content_Type": "application/json"}
            try:
                status, _, body = request(
                    "archive", "POST", "/-/api/items", json.dumps(fields).encode(), **headers
                )
                if status == 201:
                    self.deposited.append(json.loads(body)["rep"])
                else:
                    self.failed[f"deposit: {status} {body[:200]!r}"] += 1
            except OSError as error:
                self.failed[f"deposit: {error!r}"] += not self.again
            time.sleep(0.1)

    def found(self) -> Found:
        """What became of all requests until now, which are counted anew from here."""
        result: Found = {
            "asked": dict(self.asked),
            "retried": dict(self.retried),
            "failed": dict(self.failed),
            "longest": round(self.longest, 2),
        }
        self.asked, self.retried, self.failed, self.longest = Counter(), Counter(), Counter(), 0.0
        return result


def properties(unit: str, *names: str) -> dict[str, str]:
    """What systemd knows of a unit."""
    lines = run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
    return dict(line.split("=", 1) for line in lines)


def until(what: str, happened: object) -> None:
    """Wait until a function returns something true. Raises RuntimeError if it does not within a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(OSError, RuntimeError):
            if happened():  # type: ignore[operator]  # a function
                return
        time.sleep(0.1)
    raise RuntimeError(f"not seen within a minute: {what}")


def make() -> None:
    """Make a resolver and an Archive, as an administrator would."""
    for kind, folder in DATA.items():
        run("install", "-d", "-o", "ibi", "-g", "ibi", "-m", "0750", str(Path(folder).parent), folder)
        Path(f"/etc/ibi/{kind}-{HOSTS[kind]}.env").write_text("IBI_SERVE_OPTIONS=--workers 2\n")
    address = {kind: f"{host}:{PORTS[kind]}" for kind, host in HOSTS.items()}
    words = (
        "--address",
        address["resolver"],
        "--service-ibi",
        "J8LNKB5R7W/3FUQHC5",
        "--allow-private-archives",
    )
    ibi("resolver", "init", "--data", DATA["resolver"], *words)
    ibi(
        "archive", "init", "--data", DATA["archive"], "--address", address["archive"], "--ip", "127.0.0.1",
        "--service-ibi", SERVICE, "--mint-host", ARCHIVE, "--mint-ip", "192.0.2.1", "--for-trying",
        "--admin", "admin@example.org", "--resolver", f"http://{address['resolver']}", "--key", "1" * 20,
    )  # fmt: skip
    ibi("resolver", "register", "--data", DATA["resolver"], "--archive-service", SERVICE, "--key", "1" * 20)
    run("systemctl", "enable", "--now", *UNITS.values())


def sign_in() -> int:
    """Sign in with a password, whose check needs a library with code of its own; the status."""
    words = ("--role", "administrator", "--generate", "--json", "--data", DATA["archive"])
    password = json.loads(ibi("archive", "account", "add", "ana", *words))["password"]
    form = urlencode({"name": "ana", "password": password}).encode()
    headers = {
        "Content_Type": "application/x-www-form-urlencoded",
        "Origin": f"https://{ARCHIVE}",
        "X_Forwarded_Proto": "https",
        "X_Forwarded_For": "203.0.113.7",
    }
    status, location, _ = request("archive", "POST", "/-/admin/sign-in", form, **headers)
    return status if location == "/-/admin" else 0


def main() -> Found:
    """Do all of it."""
    make()
    token = ibi("archive", "token", "add", "probe", "--scope", "deposit", "--data", DATA["archive"]).split()[
        -1
    ]
    words = ("--title", "Report", "--url", "https://example.org/report", "--json")
    item = json.loads(ibi("archive", "deposit", "--data", DATA["archive"], *words))["rep"]
    until("a click", lambda: request("resolver", "GET", f"/{item}")[0] == 302)
    found: Found = {"status": {kind: properties(unit, "StatusText", "Type") for kind, unit in UNITS.items()}}
    found["sign in"] = sign_in()
    clients = Clients(item, token)
    clients.start()
    time.sleep(1)
    for kind, unit in UNITS.items():
        clients.found()
        took = []
        for _ in range(RESTARTS):
            began = time.monotonic()
            run("systemctl", "restart", unit)
            took.append(round(time.monotonic() - began, 2))
            time.sleep(1)
        found[f"restarts of the {kind}"] = {**clients.found(), "took": took}
        run("systemctl", "reload", unit)
        time.sleep(1)
        found[f"reload of the {kind}"] = {**clients.found(), **properties(unit, "ActiveState", "NRestarts")}
    clients.again = True
    for kind, unit in UNITS.items():
        run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
        until(f"{unit} is up again", lambda unit=unit: properties(unit, "NRestarts")["NRestarts"] == "1")
        until(
            f"{unit} is ready", lambda unit=unit: properties(unit, "ActiveState")["ActiveState"] == "active"
        )
        time.sleep(1)
        found[f"kill of the {kind}"] = {**clients.found(), **properties(unit, "ActiveState", "NRestarts")}
    clients.stop()
    lost = [each for each in clients.deposited if request("archive", "GET", f"/-/api/items/{each}")[0] != 200]
    found["deposits"] = {"acknowledged": len(clients.deposited), "lost": lost}
    return found


if __name__ == "__main__":
    out = Path(sys.argv[1])
    try:
        result: Found = main()
    except BaseException as error:  # noqa: BLE001 - it is shown by the test that waits
        result = {"error": f"{type(error).__name__}: {error}"}
    with suppress(RuntimeError):
        result["journal"] = run(
            "journalctl", "--no-pager", "-o", "cat", *(f"-u{unit}" for unit in UNITS.values())
        )
    out.write_text(json.dumps(result, indent=1))
    with closing(sys.stdout):
        subprocess.run(["systemctl", "poweroff"], check=False)
