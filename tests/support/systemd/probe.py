"""What a machine under systemd does with our units: run inside it, as root, by `ibi-probe.service`.

Readers ask a resolver and an Archive, and a program deposits items, while both services are restarted and killed. What
came of it is written as JSON. Needs nothing but Python and `ibi`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode

IBI = "/opt/ibi/bin/ibi"
RESOLVER, ARCHIVE = "resolver.example.org", "archive.example.org"
UNITS = {"resolver": f"ibi-resolver@{RESOLVER}.service", "archive": f"ibi-archive@{ARCHIVE}.service"}
PORTS = {"resolver": 8080, "archive": 8081}
DATA = {"resolver": f"/var/lib/ibi/resolver/{RESOLVER}", "archive": f"/var/lib/ibi/archive/{ARCHIVE}"}
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
    headers: Mapping[str, str] = MappingProxyType({}),
    kept: HTTPConnection | None = None,
) -> tuple[int, str, bytes]:
    """One request, on a connection of its own unless it is `kept`: status, Location, body. Raises OSError."""
    connection = kept or HTTPConnection("127.0.0.1", PORTS[kind], timeout=_TIMEOUT)
    try:
        connection.request(method, target, body, {"Host": HOSTS[kind], **headers})
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
        self.sent: Counter[str] = Counter()
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
            threading.Thread(target=self._read_new),
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
            self.sent[name] += 1
            began = time.monotonic()
            try:
                self._read_until_found(name, kind, target, wanted, kept)
            except OSError as error:
                self.failed[f"{name}: {error!r}"] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.02)
        if kept is not None:
            kept.close()

    def _read_until_found(
        self, name: str, kind: str, target: str, wanted: int, kept: HTTPConnection | None = None
    ) -> None:
        """Read, and again where the page asks for it (503), as it does by itself, five times at most."""
        try:
            status, _, body = request(kind, "GET", target, kept=kept)
        except OSError:
            # A connection that is kept may be closed while nothing is under way: all clients open another one.
            if not (self.again or kept):
                raise
            if kept is not None:
                kept.close()
            self.retried[name] += 1
            status, _, body = request(kind, "GET", target)
        for _ in range(5):
            if status != 503:
                break
            self.retried[name] += 1
            time.sleep(1)
            status, _, body = request(kind, "GET", target)
        if status != wanted:
            self.failed[f"{name}: {status} {body[:2000]!r}"] += 1

    def _read_new(self) -> None:
        """Click on each item once that was deposited: the resolver has no answer for it yet."""
        clicked = 0
        while not self.over.is_set():
            time.sleep(0.02)
            if clicked == len(self.deposited):
                continue
            self.sent["first click"] += 1
            try:
                self._read_until_found("first click", "resolver", f"/{self.deposited[clicked]}", 302)
            except OSError as error:
                self.failed[f"first click: {error!r}"] += not self.again
            clicked += 1

    def _deposit(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            self.sent["deposit"] += 1
            fields = {"metadata": {"title": [f"Deposit {number}"]}, "url": f"https://example.org/{number}"}
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            try:
                status, _, body = request(
                    "archive", "POST", "/-/api/items", json.dumps(fields).encode(), headers
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
            "sent": dict(self.sent),
            "retried": dict(self.retried),
            "failed": {what: times for what, times in self.failed.items() if times},
            "longest": round(self.longest, 2),
        }
        self.sent, self.retried, self.failed, self.longest = Counter(), Counter(), Counter(), 0.0
        return result


def properties(unit: str, *names: str) -> dict[str, str]:
    """What systemd knows of a unit."""
    lines = run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
    return dict(line.split("=", 1) for line in lines)


def until(what: str, happened: object) -> None:
    """Wait until a function returns something true. Raises RuntimeError if it does not within two minutes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError, RuntimeError):
            if happened():  # type: ignore[operator]  # a function
                return
        time.sleep(0.1)
    raise RuntimeError(f"not seen within two minutes: {what}")


def make() -> str:
    """Make a resolver and an Archive, as an administrator would; the password of the first account of the Archive."""
    Path("/etc/ibi").mkdir()
    for kind, host in HOSTS.items():
        Path(f"/etc/ibi/{kind}-{host}.env").write_text("IBI_SERVE_OPTIONS=--workers 2\n")
    words = f"--kind both --domain {ARCHIVE} --resolver-domain {RESOLVER} --ip 127.0.0.1 --admin admin@example.org"
    more = "--proxy caddy --for-trying --yes --json"
    made = run(IBI, "init", "--data", "/var/lib/ibi", *words.split(), *more.split())
    trust_caddy()
    [password] = [each["password"] for each in json.loads(made)["services"] if each["kind"] == "archive"]
    return str(password)


def trust_caddy() -> None:
    """Install, with an authority of Caddy's own instead of one of the Internet, and have the Archive trust it."""
    sample = Path("/var/lib/ibi/setup/proxy/Caddyfile")
    sample.write_text(sample.read_text().replace("\n{\n", "\n{\n\tlocal_certs\n\tskip_install_trust\n", 1))
    run("sh", "/var/lib/ibi/setup/install.sh")
    root = Path("/var/lib/caddy/caddy/pki/authorities/local/root.crt")
    until("a certificate", root.exists)
    shutil.copy(root, "/usr/local/share/ca-certificates/caddy.crt")
    run("update-ca-certificates")
    run("systemctl", "restart", UNITS["archive"])


def sign_in(password: str) -> int:
    """Sign in with a password, whose check needs a library with code of its own; the status."""
    form = urlencode({"name": "admin", "password": password}).encode()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": f"https://{ARCHIVE}",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-For": "203.0.113.7",
    }
    status, location, _ = request("archive", "POST", "/-/admin/sign-in", form, headers)
    return status if location == "/-/admin" else 0


def judge() -> Found:
    """What systemd says of the units."""
    exposure = {}
    for kind, unit in UNITS.items():
        last = run("systemd-analyze", "security", "--no-pager", unit).splitlines()[-1]
        exposure[kind] = last.partition(": ")[2].split()[0]
    verify = ("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *UNITS.values())
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    return {"exposure": exposure, "faults": done.stdout + done.stderr}


def share_files(token: str) -> Found:
    """Let a web server send the files of items, as a member of the group of the services; what it may read then."""
    run("usermod", "--append", "--groups", "ibi", "www-data")
    ibi("archive", "set", "--data", DATA["archive"], "--files-group", "ibi")
    time.sleep(1)  # the service follows its settings
    body = (
        b'--edge\r\nContent-Disposition: form-data; name="item"\r\n\r\n{"metadata": {"title": ["File"]}}\r\n'
    )
    body += b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\nshared\r\n--edge--\r\n'
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data; boundary=edge"}
    status, _, reply = request("archive", "POST", "/-/api/items", body, headers)
    if status != 201:
        raise RuntimeError(f"{status} {reply!r}")
    [file] = Path(DATA["archive"], "col").rglob("x.txt")
    secret = subprocess.run(
        ["runuser", "-u", "www-data", "--", "cat", f"{DATA['archive']}/archive.toml"],
        capture_output=True,
        check=False,
    )
    return {"file": run("cat", str(file), user="www-data"), "secret": secret.returncode}


def doctor(data: str) -> str:
    """What the doctor says of a data directory, as the user of the services."""
    command = ["runuser", "-u", "ibi", "--", IBI, "doctor", "--data", data]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def main() -> Found:
    """Do all of it."""
    password = make()
    token = ibi("archive", "token", "add", "probe", "--scope", "deposit", "--data", DATA["archive"]).split()[
        -1
    ]
    words = ("--title", "Report", "--url", "https://example.org/report", "--json")
    item = json.loads(ibi("archive", "deposit", "--data", DATA["archive"], *words))["rep"]
    until("a click", lambda: request("resolver", "GET", f"/{item}")[0] == 302)
    found: Found = judge()
    found["status"] = {kind: properties(unit, "StatusText", "Type") for kind, unit in UNITS.items()}
    found["sign in"] = sign_in(password)
    clients = Clients(item, token)
    clients.start()
    try:
        _disturb(clients, found)
    finally:
        clients.stop()
    lost = [each for each in clients.deposited if request("archive", "GET", f"/-/api/items/{each}")[0] != 200]
    found["shared"] = share_files(token)
    found["doctor"] = {kind: doctor(folder) for kind, folder in DATA.items()}
    found["deposits"] = {"acknowledged": len(clients.deposited), "lost": lost}
    return found


def _disturb(clients: Clients, found: Found) -> None:
    """Restart, reload and kill both services; what became of the requests meanwhile."""
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
        before = properties(unit, "MainPID")
        run("systemctl", "reload", unit)
        time.sleep(1)
        processes = {"process before": before, "process after": properties(unit, "MainPID")}
        found[f"reload of the {kind}"] = {**clients.found(), **properties(unit, "ActiveState"), **processes}
    run("sh", "/var/lib/ibi/setup/install.sh")  # as after an update
    time.sleep(1)
    found["installed again"] = clients.found()
    clients.again = True
    for kind, unit in UNITS.items():
        run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
        until(f"{unit} is up again", lambda unit=unit: properties(unit, "NRestarts")["NRestarts"] == "1")
        until(
            f"{unit} is ready", lambda unit=unit: properties(unit, "ActiveState")["ActiveState"] == "active"
        )
        time.sleep(1)
        found[f"kill of the {kind}"] = {**clients.found(), **properties(unit, "ActiveState", "NRestarts")}


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
