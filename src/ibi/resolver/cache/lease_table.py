"""The leases and versions that the processes of a resolver share in memory; `lease` has their rules.

    archives    a slot for each: its key, its lease, when it was last asked, its version, its session
    names       65,536 slots with a version each; the digest of a name leads to its slot

The version of a name changes when an item that bears it has changed, and that of an Archive when any of its items may
have. A cached redirect is used while the versions of all that it rests on are what they were when it was made.

All is in a small file that each process maps, as `runtime.generation_counter` does. Nothing of it is needed after a
restart, but no version may return to a number that an older process has seen. So each change draws a random one.
The lock of an Archive is a byte of another file, which the kernel frees when its process dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ibi.errors import SetupError
from ibi.resolver.cache.lease import NEVER, Moment
from ibi.resolver.cache.rows import name_digest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME_SLOTS: Final = 1 << 16
"""Slots of names, each with a version; if two names share a slot, a change of one changes the version of both."""

MOST_SLOTS: Final = 1 << 17
"""Archives that may have a lease at once; the answers of further ones are used for their `max-age`."""

NO_SLOT: Final = 0
"""Stands for the slot of an Archive when all are taken."""

_PROBES: Final = 64  # slots that are tried for one Archive
_KEY: Final = 8  # bytes of a key, as a number
_VERSION_BYTES, _NUMBER = 4, 8


def name_slot(digest: bytes) -> int:
    """Return the slot of the version of the name of this digest (`rows.name_digest`)."""
    return digest[0] << 8 | digest[1]


class LeaseTable:
    """The leases and versions of one resolver. To be opened after a fork. Raises SetupError if it cannot be used.

    `name_versions`, `archive_versions`, `began_boot` and `began_real` are for callers that read so often that a method
    call costs too much; the first by `name_slot`, the others by `slot`.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._memory = _map(path, NAME_SLOTS * _VERSION_BYTES + 6 * MOST_SLOTS * _NUMBER)
            self._locks = os.open(path.with_suffix(".locks"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError("{path} cannot be used: {reason}", path=path, reason=error) from None
        whole = memoryview(self._memory)
        names = NAME_SLOTS * _VERSION_BYTES
        self.name_versions = whole[:names].cast("I")
        columns = [whole[names + each * MOST_SLOTS * _NUMBER :][: MOST_SLOTS * _NUMBER] for each in range(6)]
        self._keys = columns[0].cast("Q")
        self.began_boot, self.began_real = columns[1].cast("d"), columns[2].cast("d")
        self.archive_versions = columns[3].cast("Q")
        self._sessions, self._sent = columns[4].cast("Q"), columns[5].cast("d")
        self._slots: dict[str, int] = {}
        self._held: set[int] = set()

    def slot(self, archive: str) -> int:
        """Return the slot of an Archive (canonical service IBI), the same in all processes; NO_SLOT if none is free."""
        found = self._slots.get(archive)
        if found is None:
            found = self._slots[archive] = self._claim(archive)
        return found

    def began(self, slot: int) -> Moment:
        """Return when the last complete request for changes was sent."""
        return Moment(self.began_boot[slot], self.began_real[slot])

    def renew(self, slot: int, sent: Moment) -> None:
        """Write when a complete request was sent; in NO_SLOT nothing is written."""
        if slot != NO_SLOT:
            # Between the two, a reader sees one old clock, so that the lease seems older than it is.
            self.began_boot[slot], self.began_real[slot] = sent

    def end(self, slot: int) -> None:
        """End the lease of an Archive, and drop the request that is under way: it was excluded, or moved."""
        self._sessions[slot] = _other(8)
        self.renew(slot, NEVER)

    def end_all(self) -> None:
        """End all leases; call it when a resolver starts, before its processes do."""
        for slot in range(1, MOST_SLOTS):
            if self._keys[slot]:
                self.end(slot)

    def session(self, slot: int) -> int:
        """Return a number that changes when the request that is under way no longer counts."""
        return self._sessions[slot]

    def sent(self, slot: int) -> float:
        """Return when any process last sent a request for changes, complete or not (`Moment.boot`)."""
        return self._sent[slot]

    def note_sent(self, slot: int, boot: float) -> None:
        """Note when a request for changes is sent."""
        self._sent[slot] = boot

    def change_versions(self, names: Iterable[str]) -> None:
        """Change the versions of these canonical names, so that cached redirects which rest on them are not used."""
        for name in names:
            self.change_version(name_digest(name))

    def change_version(self, digest: bytes) -> None:
        """Change the version of the name of this digest."""
        self.name_versions[name_slot(digest)] = _other(4)

    def change_archive_version(self, slot: int) -> None:
        """Change the version of an Archive, so that no cached redirect which rests on its answers is used."""
        self.archive_versions[slot] = _other(8)

    def lock(self, slot: int) -> bool:
        """Take the lock under which changes of an Archive are requested; False if it is held, here or elsewhere."""
        if slot in self._held:  # the kernel would give it to this process once more
            return False
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        except OSError:
            return False
        self._held.add(slot)
        return True

    def unlock(self, slot: int) -> None:
        """Free the lock of an Archive."""
        self._held.discard(slot)
        fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, slot)

    def close(self) -> None:
        """Close the files."""
        os.close(self._locks)

    def _claim(self, archive: str) -> int:
        """Find the slot of an Archive, or give it a free one."""
        key = int.from_bytes(blake2b(archive.encode(), digest_size=_KEY).digest(), "big") | 1
        for probe in range(_PROBES):
            slot = (key + probe) % (MOST_SLOTS - 1) + 1
            if not self._keys[slot]:
                fcntl.lockf(self._locks, fcntl.LOCK_EX, 1, NO_SLOT)
                try:
                    if not self._keys[slot]:
                        self._keys[slot] = key
                finally:
                    self.unlock(NO_SLOT)
            if self._keys[slot] == key:
                return slot
        return NO_SLOT


def _other(size: int) -> int:
    """Return a number of so many bytes that hardly any process has seen before; random, as two may change at once."""
    return secrets.randbits(8 * size)


def _map(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # Allocated, not truncated to size: a full disk would kill the process at a store (SIGBUS).
        os.posix_fallocate(handle, 0, size)
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)
