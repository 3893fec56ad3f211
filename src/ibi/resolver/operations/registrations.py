"""Registrations: which Archives take part, with which keys, and where they may move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field
from ibi.api.operations import Operation
from ibi.api.routes import MOMENT, TEXT, TRUTH, list_of, record
from ibi.errors import BadField, IbiError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import LONGEST_TITLE, ArchiveTitles, checked_title
from ibi.resolver.members.registrar import application_facts, archive_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.resolver.model.archive import RegisteredArchive
    from ibi.resolver.operations.context import ResolverContext

LONGEST_REASON: Final = 1000
"""Characters of the reason for which an application is refused."""

APPLIED, REGISTERED = "applied", "registered"


class ArchiveFields(Fields, frozen=True):
    """One Archive."""

    ibi: Annotated[str, field("the IBI of the Archive's service", "ibi IBI", longest=512)]


class RefuseFields(ArchiveFields, frozen=True):
    """An application that is refused."""

    reason: Annotated[
        str, field("why, as the applicant is told by mail", "--reason TEXT", LONGEST_REASON, lines=True)
    ]


class StateFields(Fields, frozen=True):
    """Which Archives are listed."""

    state: Annotated[Literal["", "applied", "registered"], field("only those in this state")] = ""


class RegisterFields(ArchiveFields, frozen=True):
    """An Archive that is registered without having applied."""

    key: Annotated[
        str,
        field(
            "its registration key; without it, a strong one is made and shown once", "--key KEY", secret=True
        ),
    ] = ""
    mail: Annotated[str, field("the mail address of its administrator", "--mail ADDRESS", longest=254)] = ""
    name: Annotated[str, field("the name of its administrator", longest=254)] = ""
    title: Annotated[
        str, field("what readers call it, until it says so itself", "--title TITLE", longest=LONGEST_TITLE)
    ] = ""
    title_pt: Annotated[
        str,
        field("what they call it in Portuguese, if it differs", "--title-pt TITLE", longest=LONGEST_TITLE),
    ] = ""
    url_hosts: Annotated[
        tuple[str, ...], field("redirects to its items lead to these hosts only", "--url-host HOST")
    ] = ()


def listed(context: ResolverContext, fields: StateFields) -> dict[str, Any]:
    """All Archives known here, or those in one state. Raises SetupError."""
    found = [*context.registrar.waiting(), *context.registrar.registered()]
    facts = [registration_facts(each) for each in found]
    return {"registrations": [each for each in facts if fields.state in {"", each["state"]}]}


def known(context: ResolverContext, fields: ArchiveFields) -> RegisteredArchive:
    """Return an Archive that is registered or has applied. Raises NotHeld, ParseError, SetupError."""
    return context.registrar.known(parse_ibi(fields.ibi))


def one(context: ResolverContext, fields: ArchiveFields) -> dict[str, Any]:
    """An Archive. Raises NotHeld, ParseError, SetupError."""
    return registration_facts(known(context, fields))


def register(context: ResolverContext, fields: RegisterFields) -> dict[str, Any]:
    """Register an Archive; its key is in the result, if it was made here. Raises ParseError, SetupError."""
    service = parse_ibi(fields.ibi)
    titles = ArchiveTitles(_title("title", fields.title), _title("title_pt", fields.title_pt))
    key = context.registrar.register(
        service, fields.key or None, fields.url_hosts, fields.mail, fields.name, titles=titles, by=context.who,
        check=_unchanged(context, lambda: listed(context, StateFields())),
    )  # fmt: skip
    return {"service_ibi": str(service)} | ({} if fields.key else {"key": key})


def _title(name: str, text: str) -> str:
    """Return what readers call an Archive, of the field `name`. Raises BadField."""
    title = checked_title(text)
    if text.strip() and not title:
        raise BadField("{name} is one line of at most {most} characters", name=name, most=LONGEST_TITLE)
    return title


def forget(context: ResolverContext, fields: ArchiveFields) -> None:
    """Forget an Archive, included or not. Raises NotHeld, ParseError, SetupError."""
    context.registrar.unregister(parse_ibi(fields.ibi), context.who, _same_archive(context, fields))


def approve(context: ResolverContext, fields: ArchiveFields) -> dict[str, Any]:
    """Register an Archive that has applied. Raises ParseError, SetupError."""
    context.registrar.approve(parse_ibi(fields.ibi), context.who, _same_archive(context, fields))
    return one(context, fields)


def refuse(context: ResolverContext, fields: RefuseFields) -> None:
    """Forget an application, and send the applicant the reason. Raises ParseError, SetupError."""
    same = _same_archive(context, fields)
    context.registrar.refuse(parse_ibi(fields.ibi), context.who, same, reason=fields.reason)


def rotate(context: ResolverContext, fields: ArchiveFields) -> dict[str, Any]:
    """Give an Archive a new key, which is in the result. Raises NotHeld, ParseError, SetupError."""
    service = parse_ibi(fields.ibi)
    return {
        "service_ibi": str(service),
        "key": context.registrar.rotate(service, context.who, _same_archive(context, fields)),
    }


def allow_move(context: ResolverContext, fields: ArchiveFields) -> dict[str, Any]:
    """Let an Archive move once, whatever its old address says. Raises NotHeld, ParseError, SetupError."""
    context.registrar.allow_move(parse_ibi(fields.ibi), context.who, _same_archive(context, fields))
    return one(context, fields)


def archives(context: ResolverContext, _fields: NoFields) -> dict[str, Any]:
    """The included Archives: what the registry has, and the status of each in this process. Raises SetupError."""
    status = context.status()
    facts_by_name = {str(each.service_ibi): archive_facts(each) for each in context.registrar.registered()}
    facts = status.as_dict(lambda text, values: context.say(IbiError(text, **values)))
    included = [facts_by_name.get(each["service_ibi"], {}) | each for each in facts["members"]]
    return {"moment": facts["moment"], "archives": included}


def _same_archive(context: ResolverContext, fields: ArchiveFields) -> Callable[[], None]:
    return _unchanged(context, lambda: one(context, fields))


def _unchanged(context: ResolverContext, present: Callable[[], Any]) -> Callable[[], None]:
    """Make the check that something is still as it was seen, for the transaction of its change."""

    def check() -> None:
        if context.if_match:  # else the registry need not be read
            context.check_match(present())

    return check


def registration_facts(archive: RegisteredArchive) -> dict[str, Any]:
    """A registered Archive or an application as JSON has it, with its state."""
    if archive.applied:
        return {"state": APPLIED, **application_facts(archive)}
    return {"state": REGISTERED, **archive_facts(archive), "may_move": archive.move_allowed}


_MAYBE: Final = {"type": ["string", "null"]}
_OF_ARCHIVES: Final = {
    "registered": MOMENT,
    "included": TRUTH,
    **dict.fromkeys(("changed", "heard", "confirmed_address", "moving_to"), _MAYBE),
    "url_hosts": list_of(TEXT),
    **dict.fromkeys(("title", "title_pt", "mail", "name", "address"), TEXT),
    **dict.fromkeys(("ip", "protocol", "platform_version", "admin_mail"), TEXT),
    "confirmed": TRUTH,
}
"""Members of a registered Archive; from `address` on they are there while it is included."""
_ONE: Final = {
    "type": "object",
    "required": ["service_ibi", "state", "mail", "name", "url_hosts"],
    "properties": {
        "service_ibi": TEXT,
        "state": {"enum": [APPLIED, REGISTERED]},
        "applied": MOMENT,
        "may_move": TRUTH,
        **_OF_ARCHIVES,
    },
}
_KEY: Final = record(
    "key", service_ibi=TEXT, key={**TEXT, "description": "told this once; absent where it was given"}
)
_STANDING: Final = {
    "type": "object",
    "required": ["service_ibi", "address", "standing", "confirmed", "since", "last_heard", "asleep"],
    "properties": {
        "service_ibi": TEXT,
        "standing": {"enum": ["heard", "silent", "not asked"]},
        "since": MOMENT,
        "last_heard": _MAYBE,
        "asleep": TRUTH,
        "why": TEXT,
        **_OF_ARCHIVES,
    },
}

REGISTER: Final = Operation(
    "register", "register an Archive", Scope.ADMIN, RegisterFields, register, "POST /registrations", gives=_KEY,
    status=201, shown_once="key",
)  # fmt: skip
APPROVE: Final = Operation(
    "approve", "register an Archive that has applied", Scope.ADMIN, ArchiveFields, approve,
    "POST /registrations/<ibi>/approve", place="ibi", gives=_ONE, page="applications",
)  # fmt: skip
REFUSE: Final = Operation(
    "refuse", "refuse a request for registration", Scope.ADMIN, RefuseFields, refuse,
        "POST /registrations/<ibi>/refuse",
    place="ibi", page="applications",
)  # fmt: skip
ROTATE: Final = Operation(
    "rotate", "give an Archive a new key, shown only this once; the old one is void", Scope.ADMIN,
        ArchiveFields, rotate,
    "POST /registrations/<ibi>/rotate", place="ibi", gives=_KEY, page="archives", shown_once="key",
)  # fmt: skip
ALLOW_MOVE: Final = Operation(
    "allow-move", "let an Archive move once, though its old address still answers", Scope.ADMIN, ArchiveFields,
    allow_move, "POST /registrations/<ibi>/allow-move", place="ibi", gives=_ONE, page="archives",
)  # fmt: skip
FORGET: Final = Operation(
    "unregister", "unregister an Archive", Scope.ADMIN, ArchiveFields, forget,
        "DELETE /registrations/<ibi>", place="ibi",
    page="archives",
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[ResolverContext, Any], ...]] = (
    Operation(
        "registrations", "Archives that are registered, or have applied", Scope.READ, StateFields, listed,
        "GET /registrations", gives=record(registrations=list_of(_ONE)), page="archives", command="archives",
    ),
    Operation(
        "registration", "an Archive", Scope.READ, ArchiveFields, one, "GET /registrations/<ibi>", place="ibi",
        gives=_ONE, page="archives", command="archives",
    ),
    REGISTER,
    APPROVE,
    REFUSE,
    ROTATE,
    ALLOW_MOVE,
    FORGET,
    Operation(
        "archives", "the included Archives, and how they are", Scope.READ, NoFields, archives, "GET /archives",
        gives=record(moment=MOMENT, archives=list_of(_STANDING)), page="archives", command="status",
    ),
)  # fmt: skip
