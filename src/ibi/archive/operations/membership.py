"""The membership of an Archive at its resolvers: join, leave, switch on and off, change keys.

A change takes effect in a running Archive within a second.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field
from ibi.api.operations import Operation
from ibi.api.routes import TEXT, TRUTH, list_of, record
from ibi.archive.membership.founding import register_command
from ibi.archive.membership.joining import Resolvers, key_warnings, new_key, split_base_url
from ibi.archive.membership.key_rotation import rotate_key
from ibi.archive.membership.membership import destination_of, find_service
from ibi.archive.preservation.status import of_resolvers
from ibi.errors import PeerError, SetupError
from ibi.http.client import AddressPolicy, Client
from ibi.http.client.download import Downloads
from ibi.runtime.nonce import Nonce
from ibi.runtime.settings import settings_lock

if TYPE_CHECKING:
    from ibi.archive.operations.context import ArchiveContext

LOOK_SECONDS: Final = 3.0
"""Seconds for which a resolver is asked for its service, to tell it from another one of its host."""


class ResolverFields(Fields, frozen=True):
    """One resolver."""

    resolver: Annotated[
        str,
        field(
            "the base URL of the resolver: http(s)://host[:port], followed by /IBI of its service where it does not "
            "tell that itself",
            "--resolver URL",
        ),
    ]


class JoinFields(ResolverFields, frozen=True):
    """A resolver to join."""

    key: Annotated[str, field("the registration key agreed with it, if it is a new one", "--key KEY")] = ""
    also: Annotated[bool, field("it is added to the others and does not replace the first one", "--also")] = (
        True
    )


class SwitchFields(Fields, frozen=True):
    """Whether the Archive takes part at its resolvers."""

    switched_on: Annotated[bool, field("whether resolvers lead readers here")]


class RotateFields(Fields, frozen=True):
    """The resolver that gives a new key."""

    resolver: Annotated[
        str, field("the root URL of the resolver; without it, the first one", "--resolver URL")
    ] = ""


def show(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return the state of the Archive at its resolvers. Raises SetupError."""
    resolvers = Resolvers.read(context.data)
    settings = resolvers.settings
    with context.catalogue() as catalogue, catalogue.reading() as run:
        listed = of_resolvers(run, resolvers, context.say)
    return {
        "service": str(settings.service.main),
        "address": settings.address,
        "switched_on": settings.switched_on,
        "retired": settings.retired,
        "resolvers": listed,
    }


def join(context: ArchiveContext, fields: JoinFields) -> dict[str, Any]:
    """Join a resolver; make a key if none is given. Raises SetupError, Conflict."""
    with settings_lock(context.data):
        # Read under the lock, because another command may have changed the settings meanwhile.
        before = Resolvers.read(context.data)
        context.check_match(_version(before))
        same = asyncio.run(_same_resolver(before, fields))
        joined = before.joining(fields.resolver, fields.key or None, also=fields.also, same=same)
        joined.write(context.data)
    (root, _), service = split_base_url(fields.resolver), joined.settings.service
    key = joined.keys[root]
    return {
        "resolver": root,
        "resolver_service": joined.services[root],
        "service": str(service.main),
        "key": key,
        "command": register_command(service, key),
        "warnings": [context.say(warning) for warning in key_warnings(root, key)],
    }


async def _same_resolver(resolvers: Resolvers, fields: JoinFields) -> str:
    """Return the root URL under which a new resolver was known until now; "" if it is none of those of its host.

    Resolvers of one host are told apart by their services. One whose service cannot be found out, as where it is no
    longer served by http, counts as the same, unless the new one is to be added to the others.
    """
    candidates = resolvers.at_the_same_host(fields.resolver)
    if not candidates:
        return ""
    root, named = split_base_url(fields.resolver)
    # The administrator has typed the addresses, so they may be private.
    client = Client(AddressPolicy(allow_private=True))
    try:
        service = named or await _service_of(client, root)
        known = {each: resolvers.services[each] or await _service_of(client, each) for each in candidates}
    finally:
        await client.close()
    same = [each for each in candidates if known[each] == service != ""]
    possible = [each for each in candidates if not (fields.also or (known[each] and service))]
    return next(iter(same + possible), "")


async def _service_of(client: Client, root: str) -> str:
    """Return the service of a resolver as it tells it; "" if it does not."""
    try:
        return await find_service(client, destination_of(root), LOOK_SECONDS)
    except PeerError:
        return ""


def leave(context: ArchiveContext, fields: ResolverFields) -> None:
    """Leave a resolver. Raises SetupError, Conflict."""
    with settings_lock(context.data):
        before = Resolvers.read(context.data)
        context.check_match(_version(before))
        before.leaving(fields.resolver).write(context.data)


def switch(context: ArchiveContext, fields: SwitchFields) -> dict[str, Any]:
    """Switch the Archive on or off at its resolvers. Raises SetupError, Conflict."""
    with settings_lock(context.data):
        before = Resolvers.read(context.data)
        context.check_match(_version(before))
        before.switching(on=fields.switched_on).write(context.data)
    return show(context, NoFields())


def rotate(context: ArchiveContext, fields: RotateFields) -> dict[str, Any]:
    """Get a new key from a resolver; the old key becomes void. Raises SetupError, PeerError, Conflict."""
    # The lock is held all the time, because the old key is void as soon as there is a new key, which must
    # then be stored. Other changes of settings wait for at most twice ROTATION_SECONDS.
    with settings_lock(context.data):
        resolvers = Resolvers.read(context.data)
        context.check_match(_version(resolvers))
        url = split_base_url(fields.resolver)[0] if fields.resolver else resolvers.settings.resolver
        if url not in resolvers.keys:
            raise SetupError("this Archive does not take part in {url}", url=url or "-")
        first = url == resolvers.settings.resolver
        if first:
            replace(resolvers.settings, key=new_key()).check_environment()
        key = asyncio.run(_new_key(context, resolvers, url))
        resolvers.joining(url, key, also=not first).write(context.data)
    return {"resolver": url}


async def _new_key(context: ArchiveContext, resolvers: Resolvers, url: str) -> str:
    # The administrator has typed the resolver's address, so it may be private.
    async with Downloads(AddressPolicy(allow_private=True)) as downloads:
        nonce = Nonce(context.data, context.directory.now)
        return await rotate_key(downloads, url, resolvers.settings.service.main, nonce)


def _version(resolvers: Resolvers) -> Any:
    """Return the value for the ETag of the membership: this Archive's decisions, not resolvers' answers."""
    return [
        resolvers.settings.switched_on,
        resolvers.settings.retired,
        list(resolvers.keys),
        resolvers.services,
    ]


def _decided(context: ArchiveContext, _fields: NoFields) -> Any:
    return _version(Resolvers.read(context.data))


_STANDING: Final = record(
    service=TEXT,
    address=TEXT,
    switched_on=TRUTH,
    retired=TRUTH,
    resolvers=list_of(
        {
            "type": "object",
            "properties": dict.fromkeys(("url", "service", "standing", "since", "heard", "problem"), TEXT),
        }
    ),
)
_JOINED: Final = record(
    resolver=TEXT, resolver_service=TEXT, service=TEXT, key=TEXT, command=TEXT, warnings=list_of(TEXT)
)

MEMBERSHIP: Final = Operation(
    "membership", "how the Archive stands at its resolvers", Scope.ADMIN, NoFields, show, "GET /membership",
    gives=_STANDING, page="membership", command="show", version=_decided,
)  # fmt: skip
JOIN: Final = Operation(
    "join", "name a resolver that the Archive takes part in", Scope.ADMIN, JoinFields, join, "POST /membership",
    gives=_JOINED, page="membership", status=201, shown_once="key",
)  # fmt: skip
LEAVE: Final = Operation(
    "leave", "leave a resolver", Scope.ADMIN, ResolverFields, leave, "DELETE /membership",
    page="membership",
)  # fmt: skip
SWITCH: Final = Operation(
    "switch", "switch the Archive on or off at its resolvers; it goes on answering", Scope.ADMIN, SwitchFields,
    switch, "PATCH /membership", gives=_STANDING, page="membership",
)  # fmt: skip
ROTATE_KEY: Final = Operation(
    "rotate-key", "get a new key from a resolver; the old one is void", Scope.ADMIN, RotateFields, rotate,
    "POST /membership/key", gives=record(resolver=TEXT), refusals=(502,), is_remote=True,
    warning="the old key is void at once",
)  # fmt: skip

OPERATIONS: Final = (MEMBERSHIP, JOIN, LEAVE, SWITCH, ROTATE_KEY)
