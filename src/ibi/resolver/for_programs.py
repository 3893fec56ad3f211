"""What programs find at a resolver without asking about an item: who it is, and which doors it has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.exchange import JSON, NO_STORE, PLAIN, Response
from ibi.exchange.well_known import CATALOG, SECURITY, Interface, catalog, security
from ibi.resolver.openapi import PATH as OPENAPI
from ibi.resolver.openapi import document
from ibi.resolver.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.resolver.mirror import Publisher
    from ibi.resolver.registry import Registry
    from ibi.resolver.visitor import Visitor
    from ibi.settings import ResolverSettings

ROBOTS: Final = (
    b"# Persistent URLs may be followed: each leads to an Archive, whose own robots.txt holds there.\n"
    b"User-agent: *\n"
    b"Allow: /-/status\n"
    b"Allow: /-/about\n"
    b"Disallow: /-/\n"
)

_FOR_A_DAY: Final = (("cache-control", "public, max-age=86400"),)
_FOR_AN_HOUR: Final = (("cache-control", "public, max-age=3600"),)


class ForPrograms:
    """The doors for programs of one resolver, by path. `now` gives POSIX seconds."""

    def __init__(
        self,
        settings: ResolverSettings,
        registry: Registry,
        publisher: Publisher | None,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._publisher = publisher
        self._now = now
        told = document(registers=settings.registration == "form", publishes=publisher is not None)
        self._document = json.dumps(told, indent=1).encode()
        self.doors: dict[str, Callable[[Visitor], Response | None]] = {
            "/robots.txt": lambda _: Response(200, ROBOTS, PLAIN, _FOR_A_DAY),
            "/favicon.ico": lambda _: Response(204, headers=_FOR_A_DAY),
            "/-/healthz": lambda _: Response(200, b"ok\n", PLAIN, NO_STORE),
            "/-/about": lambda _: self._about(),
            SECURITY: lambda _: security(settings.admin, self._now()),
            CATALOG: lambda _: self._catalog(),
            OPENAPI: lambda _: Response(200, self._document, JSON, _FOR_AN_HOUR),
        }
        """What answers at a path; None where there is nothing after all."""

    def _catalog(self) -> Response:
        base = f"http://{self._settings.address}"
        told = (
            ("service-desc", f"{base}{OPENAPI}", JSON),
            ("service-meta", f"{base}/-/about", JSON),
            ("status", f"{base}/-/status", JSON),
        )
        return catalog(base, [Interface(f"{base}/", told)])

    def _about(self) -> Response:
        settings = self._settings
        policy = Policy(strict=settings.policy == "strict")
        facts: dict[str, Any] = {
            "role": "resolver",
            "service_ibi": str(settings.service.main),
            "service": str(settings.service),
            "address": settings.address,
            "aliases": list(settings.aliases),
            "policy": policy.name,
            "differences": {difference.name: difference.sentence for difference in policy.differences},
            "admin": settings.admin or None,
            "attestation_key": self._publisher.key if self._publisher else None,
            "private_archives": settings.allow_private_archives,
            "archives": len(self._registry.archives()),
            "seconds": {"per_archive": settings.archive_seconds, "overall": settings.overall_seconds},
        }
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, NO_STORE)
