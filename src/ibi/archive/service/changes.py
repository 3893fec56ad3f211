"""What an Archive says of its log of changes: the positions of answers, and replies to requests for changes."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

import ibi
from ibi.archive.model.changes import reply_to
from ibi.archive.store.tables import change_log
from ibi.errors import SetupError
from ibi.http.client_address import in_networks
from ibi.http.response import pairs
from ibi.protocol.replies import RequestError

if TYPE_CHECKING:
    from ibi.archive.membership.resolver_addresses import ResolverAddresses
    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.http.response import Response
    from ibi.protocol.extensions.changes import ChangesRequest
    from ibi.runtime.settings import ArchiveSettings

ChangesOutcome = Literal["names", "anything", "refused"]
"""What a request for changes got: names, perhaps none; that anything may have changed; or a refusal (403)."""

RECONCILED_AFTER: Final = 2.0
"""Seconds for which a process may answer by other settings than the logged ones: each process reads them by itself."""
RECONCILED_EVERY: Final = 60.0
"""Seconds between two tries of a process to log its settings, where they remain different from the logged ones."""

_REFUSED: Final = pairs(RequestError("only resolvers that this Archive has joined may ask this").body(), 403)

_log = logging.getLogger(__name__)


class AnsweredChanges:
    """The log of changes of one catalogue, for answers by one version of the settings.

    `joined`: the resolvers that may ask what has changed although the Archive does not publish its names. `replies`
    counts the replies by outcome.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        identity: ArchiveIdentity,
        settings: ArchiveSettings,
        joined: ResolverAddresses,
        replies: Counter[ChangesOutcome] | None = None,
    ) -> None:
        self.snapshot = catalogue.snapshot
        self.rules: Final = rules_digest(identity, settings)
        """A number for the settings by which this process answers; `Snapshot.rules` is that of the logged ones."""
        self._catalogue, self._settings, self._joined = catalogue, settings, joined
        self._replies = Counter[ChangesOutcome]() if replies is None else replies
        self._others_since, self._others_at = 0.0, -RECONCILED_EVERY

    def log_rules(self) -> None:
        """Log that any answer may be different, if the last ones were made by other settings."""
        try:
            with self.snapshot() as snapshot:
                if snapshot.rules == self.rules:
                    return
            with self._catalogue.writing() as writer:
                change_log.log_rules(writer.run, self.rules)
        except SetupError as error:
            _log.warning("answers live for a short time only: %s", error)

    def note_other_rules(self) -> None:
        """Note that an answer was made by other settings than the logged ones.

        If that lasts, because the database was set back or could not be written, our settings are logged again.
        """
        now = time.monotonic()
        if now - self._others_at >= RECONCILED_EVERY:
            self._others_since = now
        self._others_at = now
        if now - self._others_since > RECONCILED_AFTER:
            self._others_since = now + RECONCILED_EVERY
            # Not here, because the transaction waits for the disk and for other writers.
            threading.Thread(target=self.log_rules, daemon=True).start()

    def reply(self, message: ChangesRequest, request: Request, client: str | None) -> Response:
        """Reply to a request for changes of a client at this address. Raises AddressesUnknown."""
        may_ask = self._settings.holdings_filter or in_networks(client, self._settings.trusted_resolvers)
        if not may_ask and client not in self._joined.known:
            self._replies["refused"] += 1
            return _REFUSED
        if request.method == "GET" and client is not None:
            self._joined.requests.note(client)
        with self.snapshot() as snapshot:
            found = change_log.changes_after(snapshot, message.after)
        reply = reply_to(message, *found)
        response = pairs(reply.body())
        # Last, because where anything above fails the request is answered once more, by the ordinary path.
        self._replies["anything" if reply.names is None else "names"] += 1
        return response


def rules_digest(identity: ArchiveIdentity, settings: ArchiveSettings) -> int:
    """Return a digest of all that decides the answers of an Archive beside its items: a number above 0."""
    relations = identity.relations
    rules = (
        ibi.__version__,  # another version, newer or older, may make other answers from the same items
        sorted(identity.pairs.items()),
        identity.base,
        None if relations is None else [relation.qualifier for relation in relations],
        settings.networks,
        settings.trusted_resolvers,
        settings.filter_answers,
        settings.reuse_seconds,
        settings.secret,
    )
    return int.from_bytes(blake2b(repr(rules).encode(), digest_size=7).digest(), "big") + 1
