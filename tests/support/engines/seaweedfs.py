"""An object store for tests: a real SeaweedFS, on free ports, with its data in a folder, ended by kill -9."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from support.ports import free_port

KEY, SECRET, BUCKET = "archive-key", "archive-secret", "items"
SECOND = ("second-key", "second-secret")
"""A further key, for what changes its key."""
_PORTS = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
          "s3.port", "s3.port.grpc")  # fmt: skip
# With these two, it takes writes 3 seconds after it was killed, and not 20.
_QUICK = ("-master.electionTimeout=1s", "-master.heartbeatInterval=100ms")
_LONGEST_START = 40.0
_TRIES = 4


def _new_ports() -> dict[str, int]:
    return {name: free_port() for name in _PORTS}


def weed() -> str | None:
    """Return the path of the program, None if it is not installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


@dataclass
class SeaweedFS:
    """One server with the bucket BUCKET; `restart` takes up the same data on the same ports."""

    folder: Path
    ports: dict[str, int] = field(default_factory=_new_ports)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The root of its URLs."""
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    def environment(self, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """Return the variables with which programs find it, as they do any S3."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until an object can be put."""
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "s3.json"
        keys = {KEY: SECRET, SECOND[0]: SECOND[1]}
        given = [
            {
                "name": key,
                "credentials": [{"accessKey": key, "secretKey": secret}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
            for key, secret in keys.items()
        ]
        config.write_text(json.dumps({"identities": given}))
        program = weed()
        assert program is not None
        command = [
            program, "server", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
            f"-s3.config={config}", "-s3.iam=false", "-s3.autoCreateBucket=false", *_QUICK,
            "-s3.port.iceberg=0", "-s3.port.lance=0",  # of these only one server could run on a machine
            "-master.volumeSizeLimitMB=64", "-volume.max=50", "-volume.preStopSeconds=0",
            *(f"-{name}={port}" for name, port in self.ports.items()),
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._until_it_takes_a_put()

    def _until_it_takes_a_put(self) -> None:
        end = time.monotonic() + _LONGEST_START
        while True:
            try:
                self._make_bucket()
                self.put("ready", b"1")
            except Exception:
                if time.monotonic() > end or not self.is_running:
                    raise
                time.sleep(0.2)
            else:
                return

    def _make_bucket(self) -> None:
        boto3, config = import_module("boto3"), import_module("botocore.config")
        once = config.Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=5)
        client = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name="us-east-1", config=once,
        )  # fmt: skip
        try:
            client.create_bucket(Bucket=BUCKET)
        except (client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
            pass
        finally:
            client.close()

    def store(self, prefix: str = "") -> Any:
        """Return a client of our own for what tests look at; without retries."""
        from obstore.store import S3Store

        return S3Store(
            BUCKET, prefix=prefix or None, endpoint=self.endpoint, access_key_id=KEY, secret_access_key=SECRET,
            region="us-east-1", client_options={"allow_http": True, "timeout": "5s"},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
        )  # fmt: skip

    def put(self, path: str, content: bytes) -> None:
        """Put an object."""
        self.store().put(path, content)

    def keys(self, prefix: str) -> list[str]:
        """Return the paths of all objects below a prefix, without it."""
        found = [each["path"] for page in self.store(prefix).list() for each in page]
        return sorted(found)

    def signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP: return when it has stopped, for its threads go on until they notice."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> None:
        """End it as a power cut of its machine would, but for its disk."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_seaweedfs(folder: Path) -> Iterator[SeaweedFS]:
    """Start a server in a folder, and kill it at the end."""
    server = SeaweedFS(folder)
    try:
        _start(server)
        yield server
    finally:
        server.kill()


def _start(server: SeaweedFS) -> None:
    """Start a server; on other ports if one was taken meanwhile, or if it does not come up."""
    for _ in range(_TRIES):
        try:
            server.start()
        except Exception:  # noqa: BLE001 - whatever kept it from coming up
            server.kill()
            server.ports = _new_ports()
        else:
            return
    server.start()


def environment_with(values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process with other variables of S3."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | dict(values)
