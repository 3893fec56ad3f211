"""Mirrors the Archives of another resolver: fetches its list every five minutes and applies it here (note 44: mirrors).

Mirrored Archives have no key here, cannot switch themselves on or off here, and come and go with the list.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from ibi.errors import BadItem, IbiError, PeerGarbled
from ibi.resolver.model.archive import moment_text, registered_archive
from ibi.resolver.registry.database import RegistryDatabase, archives
from ibi.resolver.registry.published_list import LIST_PATH, LONGEST_LIST, ListedArchive, read_list

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from ibi.http.client import HostPort
    from ibi.http.client.download import Downloads
    from ibi.identifier.forms import IBIForms
    from ibi.resolver.registry.published_list import RegistryList

FETCH_SECONDS: Final = 30.0
"""How long the fetching of a list may take."""

GONE_SECONDS: Final = 30 * 86_400
"""How long a mirrored Archive that has left the list is still known (T04: a rogue first answer)."""

REFRESH_SECONDS: Final = 300.0
"""Seconds between two fetches of the list that is mirrored."""

_NO_KEY: Final = "!"  # not an argon2 hash, so no key matches
_COMPARED = ("spelling", "address", "url_hosts", "confirmed")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MirrorChanges:
    """What a list has changed; `elsewhere`: Archives registered here, or mirrored from another resolver."""

    added: int = 0
    changed: int = 0
    gone: int = 0
    elsewhere: int = 0


class MirroredArchives(RegistryDatabase):
    """The Archives that this resolver lists for others, and those that it mirrors from others.

    `source` is always the public key of the resolver that signed the list.
    """

    def listed(self) -> list[ListedArchive]:
        """Return the Archives that others may mirror, in the order of their names."""
        # No mirrored ones: two resolvers that mirror each other would list a gone Archive for ever.
        own = (archives.c.state == "registered") & archives.c.included
        rows = self._read(select(archives).where(own).order_by(archives.c.service_ibi))
        return [
            ListedArchive(
                archive.service_ibi,
                archive.included.address,
                archive.url_hosts,
                archive.included.confirmed,
                archive.changed_at or archive.registered_at,
            )
            for archive in map(registered_archive, rows)
            if archive.included is not None
        ]

    def mirrored_at(self, source: str) -> str:
        """Return when the list applied last from a resolver was issued; "" if none was."""
        moment = func.max(archives.c.registered_at).label("moment")
        return self._read(select(moment).where(archives.c.mirrored_from == source))[0]["moment"] or ""

    def mirror(self, source: str, listed: Sequence[ListedArchive], issued: str) -> MirrorChanges:
        """Include exactly these Archives of one resolver, in one transaction; exclude its others.

        Archives that are registered or have applied here, or came first with the list of another resolver, stay as
        they are. Archives that left the list GONE_SECONDS ago are removed. Until then they stay the known holders of
        their originals, because an Archive that restarts leaves the list, too (T04: a rogue first answer).
        """
        now, own = self._clock(), archives.c.mirrored_from == source
        gone_at = moment_text(now - GONE_SECONDS)
        gone_for_long = own & archives.c.included.is_(False) & (archives.c.changed_at < gone_at)
        with self._transaction() as connection:
            connection.execute(update(archives).where(own).values(registered_at=issued))
            before = {row.service_ibi: row for row in connection.execute(select(archives))}
            before = {ibi: row for ibi, row in before.items() if row.state != "mirrored" or row.included}
            mirrored = {ibi: row for ibi, row in before.items() if row.mirrored_from == source}
            rows = {each.service_ibi.canonical: _row(each, source, issued, now) for each in listed}
            added = [row for ibi, row in rows.items() if ibi not in before]
            changes = {ibi: _changes(row, rows[ibi]) for ibi, row in mirrored.items() if ibi in rows}
            changes = {ibi: values for ibi, values in changes.items() if values}
            gone = [{"of": ibi} for ibi in mirrored if ibi not in rows]
            one, left = archives.c.service_ibi == bindparam("of"), {"included": False, "confirmed": False}
            if added:
                connection.execute(delete(archives).where(one), [{"of": row["service_ibi"]} for row in added])
                connection.execute(insert(archives), added)
            for ibi, values in changes.items():
                connection.execute(update(archives).where(archives.c.service_ibi == ibi).values(values))
            if gone:
                statement = update(archives).where(one).values(changed_at=self._now(), **left)
                connection.execute(statement, gone)
            connection.execute(delete(archives).where(gone_for_long))
        elsewhere = rows.keys() & (before.keys() - mirrored.keys())
        return MirrorChanges(len(added), len(changes), len(gone), len(elsewhere))

    def forget_mirrored(self, source: str) -> None:
        """Remove the Archives mirrored from one resolver, even if they are known holders."""
        with self._transaction() as connection:
            connection.execute(delete(archives).where(archives.c.mirrored_from == source))


def _row(each: ListedArchive, source: str, issued: str, now: float) -> dict[str, Any]:
    return {
        "service_ibi": each.service_ibi.canonical,
        "spelling": str(each.service_ibi),
        "key_hash": _NO_KEY,
        "url_hosts": " ".join(each.url_hosts),
        "registered_at": issued,
        "included": True,
        "confirmed": each.confirmed,
        "address": each.address,
        "ip": "",
        "protocol": "HTTP",
        "platform_version": "",
        "admin_mail": "",
        "changed_at": each.since,
        "state": "mirrored",
        "mirrored_from": source,
        "included_at": now,
    }


def _changes(row: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the new values of a mirrored Archive; {} if nothing has changed."""
    # An Archive that has confirmed here, at this address, stays confirmed, whatever the other resolver lists.
    if row.address == values["address"]:
        values |= {"confirmed": values["confirmed"] or row.confirmed, "included_at": row.included_at}
    return values if any(getattr(row, name) != values[name] for name in _COMPARED) else {}


@dataclass(eq=False, slots=True)
class Mirror:
    """Keeps the Archives of another resolver included here.

    `fetch` returns the text of its list and raises IbiError; `key` is its public key; `own` and `service`:
    addresses and service of this resolver; `now` returns POSIX seconds. Several processes may run one.
    """

    _registry: MirroredArchives
    _key: str
    _fetch: Callable[[], Awaitable[bytes]]
    _own: Collection[HostPort]
    _service: IBIForms
    _now: Callable[[], float]
    problem: IbiError | None = field(default=None, init=False)
    """Why the last refresh failed; None if it did not. Until one succeeds, the Archives stay as they are."""

    async def refresh(self) -> MirrorChanges:
        """Fetch and apply the list once. Raises IbiError."""
        fetched = read_list(await self._fetch(), self._key, self._now(), self._own, self._service)
        return await asyncio.to_thread(apply_list, self._registry, fetched, self._key)

    async def run(self) -> None:
        """Refresh every five minutes, until cancelled."""
        while True:
            try:
                changes = await self.refresh()
            except IbiError as problem:
                # Logged once until it changes: a resolver that is down for a day would fill the log otherwise.
                if str(problem) != str(self.problem):
                    _log.warning("the list of Archives to mirror was not taken: %s", problem)
                self.problem = problem
            else:
                self.problem = None
                if changes.added or changes.changed or changes.gone:
                    counts = changes.added, changes.changed, changes.gone
                    _log.info("mirrored Archives: %d new, %d changed, %d gone", *counts)
            await asyncio.sleep(REFRESH_SECONDS)


def apply_list(registry: MirroredArchives, fetched: RegistryList, key: str) -> MirrorChanges:
    """Include the Archives of a list here. Raises BadItem for a list older than the one before, SetupError."""
    # The signature of an old list stays valid: unchecked, a replay would bring back Archives that have gone.
    before = registry.mirrored_at(key)
    if fetched.issued < before:
        problem = "the list is of {issued}, older than that of {before}"
        raise BadItem(problem, issued=fetched.issued, before=before)
    return registry.mirror(key, fetched.archives, fetched.issued)


async def fetch_list(downloads: Downloads, url: str) -> bytes:
    """Fetch the text of a list from its URL, or from the root URL of a resolver. Raises PeerError."""
    is_root = "/" not in url.partition("://")[2].rstrip("/")
    list_url = f"{url.rstrip('/')}{LIST_PATH}" if is_root else url
    async with downloads.get(list_url, most_bytes=LONGEST_LIST, seconds=FETCH_SECONDS) as reply:
        if reply.status != 200:  # noqa: PLR2004 - OK
            raise PeerGarbled("the answer has the status {status}", status=reply.status)
        return await reply.read()
