"""Check the store that several nodes of a resolver share: it answers, and has the tables of this version."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import fault, ok, warning
from ibi.app.resolver_stores import open_registry
from ibi.errors import IbiError, SetupError
from ibi.resolver.shared.tables import check_tables, earlier_tables
from ibi.runtime.database import open_engine, place
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.shared.store import store_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.app.doctor import Finding
    from ibi.resolver.model.archive import RegisteredArchive

_REMEDY: Final = "see that the database runs, and that {file} leads to it"


def check_shared_store(data: Path) -> Iterator[Finding]:
    """Check the database that the settings of a resolver name."""
    file = data / ResolverSettings.FILE
    try:
        engine = open_engine(store_url(data))
    except SetupError as error:
        yield fault("database", error, _REMEDY, file=file)
        return
    try:
        earlier = earlier_tables(engine)
        if earlier is None:
            check_tables(engine)
    except SetupError as error:
        yield fault("database", error, _REMEDY, file=file)
    else:
        if earlier is None:
            yield ok("database", "{path} is whole and of this version", path=place(engine))
        else:
            sentence = (
                "{path} has version {found}; it is brought to version {newest} as soon as a node starts"
            )
            found, newest = earlier
            remedy = "keep a copy of the database first (pg_dump)"
            yield warning("database", sentence, remedy, path=place(engine), found=found, newest=newest)
    finally:
        engine.dispose()


def shared_archives(data: Path) -> list[RegisteredArchive] | None:
    """Return the Archives that are registered in the store; None if it cannot be read."""
    with suppress(IbiError), closing(open_registry(data)) as registry:
        return registry.registered()
    return None
