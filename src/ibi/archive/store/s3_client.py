"""The objects of one prefix of an S3 bucket: each call ends within seconds, with a result or with one clear sentence.

    s3://BUCKET/PREFIX/ibi-archive.json    the marker: whose prefix it is

The bucket is found as by all programs for S3: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or what gives keys to a machine or a container. If AWS_SHARED_CREDENTIALS_FILE
names a file, the keys are read from there, again every minute, so that others can replace them before they expire.

A store that hangs costs a call `CALL_SECONDS`; then all calls of this process fail at once for `_REST` seconds.
"""

from __future__ import annotations

import json
import time
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from ibi.errors import SetupError, StoreSilent
from ibi.identifier.dates import TICKS
from ibi.minting.machine import this_machine
from ibi.runtime.environment import environment_of_s3
from ibi.runtime.settings.rules import bucket_and_prefix

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

MARKER: Final = "ibi-archive.json"

READ_SIZE: Final = 2 << 20
"""Bytes that are read by one call."""

NO_PACKAGE: Final = "files are in {place}, but a package is missing: pip install 'ibi[s3]'"
NO_BUCKET: Final = "there is no bucket {bucket} at {endpoint}: make it, or correct `files` in archive.toml"
NOT_PREPARED: Final = (
    "{place} at {endpoint} is not prepared for this Archive: its object {marker} is missing; "
    "correct `files` or AWS_ENDPOINT_URL, or run: ibi archive move-files"
)
NOT_OURS: Final = "{place} belongs to another Archive: {owner}; give each Archive a prefix of its own"
NO_KEYS: Final = "no keys for S3 can be read from {path}, profile {profile}"
KEYS_REFUSED: Final = "the keys for {place} are refused by {endpoint}: check AWS_ACCESS_KEY_ID and its secret"
SILENT: Final = "the store of the files, {place} at {endpoint}, cannot be used now: {reason}"

CALL_SECONDS: Final = 8.0
"""How long a call may take."""
KEYS_SECONDS: Final = 60.0
"""How long keys from a file are used before it is read again."""
_CONNECT_SECONDS: Final = 2.0
_REST: Final = 2.0
_PART: Final = 8 << 20
_MOST_PARTS: Final = 9_000
_AT_ONCE: Final = 2
_REFUSED: Final = frozenset({"PermissionDeniedError", "UnauthenticatedError"})


class StoredObject(NamedTuple):
    """An object: `size` in bytes, `changed` in POSIX seconds."""

    key: str
    size: int
    changed: float


class S3Client:
    """The objects of one place. All methods but `parts` wait: call them in a thread. All raise SetupError."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._bucket, prefix = bucket_and_prefix(place)
        try:
            self._obstore: Any = import_module("obstore")
        except ImportError:
            raise SetupError(NO_PACKAGE, place=place) from None
        given = environment_of_s3()
        file, profile = given.get("AWS_SHARED_CREDENTIALS_FILE", ""), given.get("AWS_PROFILE") or "default"
        endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or ""
        self._endpoint = endpoint or "Amazon S3"
        self._rests_until = 0.0
        self._keys = KeyFile(file, profile) if file else None
        with self._faults():
            self._store = import_module("obstore.store").S3Store(
                self._bucket,
                prefix=prefix or None,
                **({"endpoint": endpoint} if endpoint else {}),
                client_options={
                    "timeout": timedelta(seconds=CALL_SECONDS),
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                    "allow_http": endpoint.startswith("http://"),
                },
                retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=CALL_SECONDS)},
                credential_provider=self._keys,
            )

    # Whose it is

    def claim(self, service: str) -> None:
        """Make the marker of an Archive, named by the IBI of its service, unless it is there. Raises SetupError."""
        marker = json.dumps({"archive": service}).encode()
        with self._faults(missing_is_bucket=True):
            try:
                self._store.put(MARKER, marker, mode="create")
            except Exception as error:
                if type(error).__name__ != "AlreadyExistsError":
                    raise
        self.check(service)

    def check(self, service: str) -> None:
        """Check that this is the place of an Archive. Raises SetupError, also if it was never claimed."""
        try:
            with self._faults():  # a whole get, whose error tells a missing bucket from a missing object
                marker = bytes(self._store.get(MARKER).bytes())
            owner = json.loads(marker).get("archive")
        except FileNotFoundError:
            raise SetupError(NOT_PREPARED, place=self.place, endpoint=self._endpoint, marker=MARKER) from None
        except (ValueError, AttributeError):
            owner = ""
        if owner != service:
            raise SetupError(NOT_OURS, place=self.place, owner=owner)

    # Objects

    def size(self, key: str) -> int:
        """Return the size of an object in bytes. Raises FileNotFoundError."""
        with self._faults():
            return int(self._store.head(key)["size"])

    def read(self, key: str, start: int, size: int) -> bytes:
        """Read a range that lies in the object. Raises FileNotFoundError."""
        if not size:
            return b""
        with self._faults():
            return bytes(self._store.get_range(key, start=start, length=size))

    async def parts(self, key: str, start: int, size: int) -> AsyncGenerator[bytes, None]:
        """Read a range, part by part, as the caller takes them. Raises FileNotFoundError."""
        at, end = start, start + size
        while at < end:
            length = min(READ_SIZE, end - at)
            with self._faults():
                part = bytes(await self._store.get_range_async(key, start=at, length=length))
            at += length
            yield part

    def put(self, key: str, content: bytes | BinaryIO | Iterable[bytes], size: int, kind: str) -> None:
        """Put an object: it is there as a whole, or not at all. `kind`: its Content-Type."""
        part = max(_PART, -(-size // _MOST_PARTS))
        with self._faults(missing_is_bucket=True):
            self._store.put(
                key, content, attributes={"Content-Type": kind}, chunk_size=part, max_concurrency=_AT_ONCE
            )

    def copy(self, key: str, target: str) -> None:
        """Copy an object of moderate size within the store. Raises FileNotFoundError."""
        with self._faults():
            self._store.copy(key, target)

    def delete(self, keys: list[str]) -> None:
        """Delete objects; missing ones do not matter."""
        if keys:
            with self._faults():
                self._store.delete(keys)

    def listed(self, folder: str) -> Iterator[StoredObject]:
        """Yield the objects below a folder, page by page."""
        pages = self._store.list(folder)
        while True:
            with self._faults():
                page = next(pages, None)
            if page is None:
                return
            for each in page:
                yield StoredObject(each["path"], int(each["size"]), each["last_modified"].timestamp())

    def signed(self, key: str, seconds: int) -> str:
        """Return a URL from which an object may be fetched for some seconds."""
        with self._faults():
            return str(self._obstore.sign(self._store, "GET", key, timedelta(seconds=seconds)))

    @contextmanager
    def _faults(self, *, missing_is_bucket: bool = False) -> Iterator[None]:
        """Turn the errors of a call into SetupErrors, but FileNotFoundError for a missing object."""
        begun = time.monotonic()
        if begun < self._rests_until:
            raise self._silent("it did not answer in time")
        try:
            yield
        except (SetupError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - obstore raises errors of many kinds
            text = str(error)
            if "NoSuchBucket" in text or (missing_is_bucket and isinstance(error, FileNotFoundError)):
                raise SetupError(NO_BUCKET, bucket=self._bucket, endpoint=self._endpoint) from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(2, "no such object", self.place) from None
            if self._keys is not None and self._keys.fault is not None:
                raise self._keys.fault from None
            if type(error).__name__ in _REFUSED:
                raise SetupError(KEYS_REFUSED, place=self.place, endpoint=self._endpoint) from None
            if time.monotonic() - begun > _CONNECT_SECONDS / 2:
                self._rests_until = time.monotonic() + _REST
            raise self._silent(_reason(text)) from None

    def _silent(self, reason: str) -> StoreSilent:
        return StoreSilent(SILENT, place=self.place, endpoint=self._endpoint, reason=reason)


def _reason(text: str) -> str:
    """Return what the first line of an error of obstore says after the address that it names."""
    first = text.partition("\n")[0].partition("Debug source")[0].strip()
    return first.rpartition(" - ")[2][:200] or "no reason was given"


class KeyFile:
    """Reads keys from a credentials file (an INI file with a section for each profile), again every minute."""

    def __init__(self, path: str, profile: str) -> None:
        self._path, self._profile = path, profile
        self.fault: SetupError | None = None
        """Why the file could not be read the last time."""

    def __call__(self) -> dict[str, Any]:
        """Return the keys, and until when they are used before the file is read again. Raises SetupError."""
        found = ConfigParser(interpolation=None)
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123 - a path from the environment
                found.read_file(file)
            keys = found[self._profile]
            given = {
                "access_key_id": keys["aws_access_key_id"],
                "secret_access_key": keys["aws_secret_access_key"],
            }
        except (OSError, KeyError, ValueError, ConfigError):
            self.fault = SetupError(NO_KEYS, path=self._path, profile=self._profile)
            raise self.fault from None
        self.fault = None
        now = datetime.fromtimestamp(this_machine().now() / TICKS, UTC)
        until = now + timedelta(seconds=KEYS_SECONDS)
        return {**given, "token": keys.get("aws_session_token"), "expires_at": until}
