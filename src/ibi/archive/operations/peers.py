"""Peers: the Archives that originals go to or come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, NoFields, field
from ibi.api.operations import Operation
from ibi.api.routes import TEXT, TRUTH, list_of, record
from ibi.errors import BadField, NotHeld, PeerError
from ibi.http.client.download import CheckedURL
from ibi.runtime.settings import ArchiveSettings, Peer, settings_lock

if TYPE_CHECKING:
    from ibi.archive.operations.context import ArchiveContext


class PeerName(Fields, frozen=True):
    """One peer."""

    name: Annotated[
        str,
        field(
            "its name here; for one that hands over to us: the name of its token", "--name NAME", longest=253
        ),
    ]


class PeerFields(PeerName, frozen=True):
    """A peer, and how it is reached."""

    address: Annotated[
        str, field("its root URL, such as http://archive.example; of whatever network", "--address URL")
    ]
    token: Annotated[
        str,
        field(
            "the token that it gave us, to hand originals over to it",
            "--token TOKEN",
            longest=512,
            secret=True,
        ),
    ] = UNSET


_ONE: Final = record(name=TEXT, address=TEXT, token=TRUTH)
_ALL: Final = record(peers=list_of(_ONE))


def show(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """List the peers, without their tokens. Raises SetupError."""
    ArchiveSettings.read(context.data)  # raises SetupError if this is no Archive, as after a typing error
    return _facts(Peer.read_tables(context.data))


def save(context: ArchiveContext, fields: PeerFields) -> dict[str, Any]:
    """Name a peer, or change one. Raises SetupError, BadField, Conflict."""
    ArchiveSettings.read(context.data)
    if not fields.name.isprintable() or "/" in fields.name:
        raise BadField("{name} is a short printable text", name="name")
    address = root_of(fields.address)
    with settings_lock(context.data):
        peers = Peer.read_tables(context.data)
        context.check_match(_facts(peers))
        before = peers.get(fields.name)
        token = fields.token if fields.token is not UNSET else before.token if before else ""
        peers[fields.name] = Peer(address=address, token=token)
        Peer.write_tables(context.data, peers)
    return {"name": fields.name, "address": address, "token": bool(token)}


def root_of(url: str) -> str:
    """Return the root URL of an Archive. Raises BadField."""
    try:
        return CheckedURL.parse(url).root
    except PeerError as error:
        raise BadField(error.problem, **error.details) from None


def remove(context: ArchiveContext, fields: PeerName) -> None:
    """Forget a peer. Raises SetupError, NotHeld, Conflict."""
    ArchiveSettings.read(context.data)
    with settings_lock(context.data):
        peers = Peer.read_tables(context.data)
        context.check_match(_facts(peers))
        if peers.pop(fields.name, None) is None:
            raise NotHeld("there is no peer {name}", name=fields.name)
        Peer.write_tables(context.data, peers)


def _facts(peers: dict[str, Peer]) -> dict[str, Any]:
    listed = [
        {"name": name, "address": peer.address, "token": bool(peer.token)} for name, peer in peers.items()
    ]
    return {"peers": listed}


LIST: Final = Operation(
    "peers", "the Archives that originals go to or come from", Scope.ADMIN, NoFields, show, "GET /peers", gives=_ALL,
    command="peer",
)  # fmt: skip
SAVE: Final = Operation(
    "peer", "name an Archive that originals go to or come from", Scope.ADMIN, PeerFields, save, "PUT /peers/<word>",
    place="name", gives=_ONE,
)  # fmt: skip
REMOVE: Final = Operation(
    "forget-peer", "remove an Archive that originals go to or come from", Scope.ADMIN, PeerName, remove,
    "DELETE /peers/<word>", place="name", command="peer",
    warning="no original goes there any more, and the token for it is forgotten",
)  # fmt: skip

OPERATIONS: Final = (LIST, SAVE, REMOVE)
