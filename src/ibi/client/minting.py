"""Order labels from a mint."""

from __future__ import annotations

import json
from typing import NamedTuple

from ibi.client.answers import garbled, members_of
from ibi.client.transport import JSON, Client


class Label(NamedTuple):
    """A new label in its forms, "" for one that was left out, and its moment."""

    rep: str
    ibip: str
    datetime: str


class Minting(Client):
    """A mint (`ibi mint serve`), by its root URL; its token is needed."""

    def mint(self, count: int = 1, *, forms: str = "", collection: str = "") -> list[Label]:
        """Return new labels. `forms`: "both", "rep" or "ibip", by default all that there are.

        The order is never sent again, since labels whose answer was lost are lost. Raises Refused, PeerError.
        """
        order = {"count": count} | {
            name: value for name, value in (("forms", forms), ("collection", collection)) if value
        }
        body = json.dumps(order).encode()
        reply = self.ask("POST", "/-/api/mint", JSON, body, Content_Type=JSON)
        labels = members_of(reply, self.host).list("labels")
        if len(labels) != count:
            raise garbled(self.host)
        return [Label(each.text("rep"), each.text("ibip"), each.text("datetime")) for each in labels]
