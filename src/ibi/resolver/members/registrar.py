"""What administrators decide about Archives: on pages, on the command line, and by programs with a token.

Each decision is recorded in the evidence before it takes effect; if the evidence cannot be written, nothing
is changed. Then the administrator of the Archive gets a mail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibi.errors import NotHeld, SetupError
from ibi.protocol.messages import NO_TITLES
from ibi.runtime.settings.rules import is_mail_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.identifier.forms import IBI, IBIForms
    from ibi.protocol.messages import ArchiveTitles
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.registry.registry import Registry


def _unchecked() -> None:
    """Check nothing: for a decision that depends on nothing that was seen before."""


@dataclass(eq=False, slots=True)
class Registrar:
    """Decides about the Archives of one resolver, whose own service is `service`; blocks the thread.

    `mail` returns the mail sender of the present settings. `by` is the command, mail, account or token that
    decides. `check` is called before a change, while no other is possible; if it raises, nothing is changed.
    """

    _registry: Registry
    _evidence: Evidence
    _mail: Callable[[], MailSender]
    _service: IBIForms

    def registered(self) -> list[RegisteredArchive]:
        """Return the registered Archives. Raises SetupError."""
        return [each for each in self._registry.registered() if not each.applied]

    def waiting(self) -> list[RegisteredArchive]:
        """Return the Archives that have applied. Raises SetupError."""
        return [each for each in self._registry.registered() if each.applied]

    def known(self, service: IBI) -> RegisteredArchive:
        """Return an Archive that is registered, or has applied. Raises NotHeld, SetupError."""
        known = self._registry.entry(service)
        if known is None:
            raise NotHeld("{ibi} is not registered here", ibi=service)
        return known

    def register(
        self,
        service: IBI,
        key: str | None,
        hosts: Iterable[str] = (),
        contact: str = "",
        name: str = "",
        *,
        titles: ArchiveTitles = NO_TITLES,
        by: str,
        check: Callable[[], None] = _unchecked,
    ) -> str:
        """Register an Archive; return its key, a strong one if not given. Raises ParseError, SetupError."""
        if contact and not is_mail_address(contact):
            raise SetupError("this is not a plain mail address: {text}", text=contact)
        if self._service.names(service):
            raise SetupError("this is the resolver's own service")
        recorded = False

        def record() -> None:
            nonlocal recorded
            self._recorder("registered", service, by, check)()
            recorded = True

        name = name if contact else ""
        chosen = self._registry.register(service, key, hosts, contact, name, record, titles=titles)
        # Registering again with the same key changes hosts and contact only: nothing is recorded, no mail is sent.
        if recorded:
            self._mail().registered(service, contact)
        return chosen

    def approve(self, service: IBI, by: str, check: Callable[[], None] = _unchecked) -> None:
        """Register an Archive that has applied. Raises SetupError."""
        known = self._registry.entry(service)
        self._registry.approve(service, self._recorder("approved", service, by, check))
        self._mail().registered(service, known.contact if known else "")

    def refuse(self, service: IBI, by: str, check: Callable[[], None] = _unchecked, *, reason: str) -> None:
        """Forget an application; mail the reason to the applicant. Raises SetupError."""
        known = self._registry.entry(service)
        self._registry.refuse(service, self._recorder("unregistered", service, by, check))
        if known is not None and known.applied:
            self._mail().refused(service, known.contact, reason)

    def unregister(self, service: IBI, by: str, check: Callable[[], None] = _unchecked) -> None:
        """Forget an Archive, included or not. Raises NotHeld, SetupError."""
        self._registry.unregister(service, self._recorder("unregistered", service, by, check))

    def rotate(self, service: IBI, by: str, check: Callable[[], None] = _unchecked) -> str:
        """Give an Archive a new key; the old one is void. Raises NotHeld, SetupError."""
        known = self._registered(service)
        key = self._registry.rotate(service, record=self._recorder("rotated", known.service_ibi, by, check))
        self._mail().rotated(known)
        return key

    def allow_move(self, service: IBI, by: str, check: Callable[[], None] = _unchecked) -> None:
        """Let an Archive move once, even if its old address answers. Raises NotHeld, SetupError."""
        known = self._registered(service)
        facts = {"address": known.move.address} if known.move else {}
        record = self._recorder("move-allowed", known.service_ibi, by, check, **facts)
        self._registry.allow_move(known.service_ibi, record)

    def _recorder(
        self, what: str, service: IBI, by: str, check: Callable[[], None], **facts: str
    ) -> Callable[[], None]:
        """Return a function that calls `check`, and writes the decision into the evidence."""

        # The registry calls it inside its transaction, so a decision that cannot be recorded is not carried
        # out. Until it ends, `check` reads the registry as it was before, and no other change is possible.
        def record() -> None:
            check()
            self._evidence.write(what, ibi=str(service), by=by, **facts)

        return record

    def _registered(self, service: IBI) -> RegisteredArchive:
        known = self.known(service)
        if known.applied:
            raise NotHeld("{ibi} is not registered here", ibi=service)
        return known


def archive_facts(archive: RegisteredArchive) -> dict[str, Any]:
    """Return the facts about a registered Archive as JSON has them; nothing about its key."""
    facts: dict[str, Any] = {
        "service_ibi": str(archive.service_ibi),
        "title": archive.titles.usual,
        "title_pt": archive.titles.portuguese,
        "registered": archive.registered_at,
        "included": archive.included is not None,
        "changed": archive.changed_at,
        "heard": archive.heard_at,
        "url_hosts": list(archive.url_hosts),
        "mail": archive.contact,
        "name": archive.contact_name,
        "confirmed_address": archive.confirmed_address,
        "moving_to": archive.move.address if archive.move else None,
    }
    if archive.included is not None:
        names = ("address", "ip", "protocol", "platform_version", "admin_mail", "confirmed")
        facts |= {name: getattr(archive.included, name) for name in names}
    return facts


def application_facts(archive: RegisteredArchive) -> dict[str, Any]:
    """Return the facts about an application as JSON has them."""
    return {
        "service_ibi": str(archive.service_ibi),
        "title": archive.titles.usual,
        "title_pt": archive.titles.portuguese,
        "applied": archive.registered_at,
        "address": archive.address,
        "mail": archive.contact,
        "name": archive.contact_name,
        "url_hosts": list(archive.url_hosts),
    }
