"""A scripted Archive whose answers live until something changes (docs/standard/extensions.md)."""

from __future__ import annotations

import secrets

from ibi.protocol.extensions.changes import ChangesReply, Validity
from ibi.protocol.pair_list import write_pairs
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive

MAX_AGE = "Cache-Control: max-age=60, s-maxage=0"


class LeasingArchive(ScriptedArchive):
    """An Archive with items in a dictionary, and a log of what was changed.

    `places`: by canonical name, where its URL leads. `rests`: on which other names an answer about it rests.
    `page`: names in one reply. `on_changes` and `on_queries`: how requests for changes, and all others, are answered
    instead.
    """

    def __init__(self, address: str = "leasing.example", ip: str = "127.0.0.1") -> None:
        super().__init__("leasing", address, "leasing.example/w/2020/01.01.00.00", ip)
        self.places: dict[str, str] = {}
        self.rests: dict[str, tuple[str, ...]] = {}
        self.log: list[tuple[str, str | None]] = []
        self.page = 500
        self.seconds = 86_400
        self.on_changes: Behaviour | None = None
        self.on_queries: Behaviour | None = None
        self.change(None)

    def change(self, name: str | None, place: str = "") -> None:
        """An item leads elsewhere from now on; None: something changes that is no item."""
        if name is not None:
            self.places[name] = place
        self.log.append((f"{len(self.log) + 1}.{secrets.token_hex(8)}", name))

    @property
    def position(self) -> str:
        """The last change."""
        return self.log[-1][0]

    @property
    def items_queried(self) -> list[str]:
        """The items that queries were about."""
        return [question[0] for question in self.questions]

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        if request.pairs.get("servicesubject") == "changesRequest":
            return self.on_changes or Behaviour(self.changes_reply(request.pairs).body())
        if self.on_queries is not None:
            return self.on_queries
        if request.pairs.get("servicesubject") != "urlRequest":
            return super().behaviour_for(request)
        name = request.pairs["parsedibiurl.ibi"]
        if name not in self.places:
            return Behaviour()
        validity = Validity(self.position, self.rests.get(name, ()), self.seconds)
        body = write_pairs(
            {
                "acknowledgment.batch": "yes",
                "archiveaddress": self.address,
                "contenttype": "Data",
                "ibi": ("rep", name),
                "ibi.archiveservice": ("rep", self.service),
                "state": "Original",
                "timestamp": "2026-01-01T00:00:00Z",
                "url": self.places[name],
                "urlkey": f"{secrets.randbelow(10**10) + 10**10}",
                **validity.pairs(),
            }
        )
        return Behaviour(body, headers=(MAX_AGE,))

    def changes_reply(self, pairs: dict[str, str]) -> ChangesReply:
        """What it says has changed."""
        word, after = pairs["changes.word"], pairs.get("changes.after")
        known = [number for number, (position, _) in enumerate(self.log) if position == after]
        later = self.log[known[0] + 1 :] if known else []
        if not known or any(name is None for _, name in later):
            return ChangesReply(word, self.position, None)
        page = later[: self.page]
        to = page[-1][0] if page else self.position
        names = tuple(dict.fromkeys(name for _, name in page if name is not None))
        return ChangesReply(word, to, names, more=len(page) < len(later))
