"""Settings of a resolver that an administrator changes while it runs (note 7: the two policies)."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, NoFields, field, given, number_field
from ibi.api.operations import Operation
from ibi.api.routes import TEXT, list_of, record
from ibi.errors import BadField
from ibi.identifier.forms import IBIForms
from ibi.resolver.members.settings_changes import CHANGEABLE_OVER_HTTP, change_settings
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.rules import RESOLVER_BOUNDS

if TYPE_CHECKING:
    import msgspec

    from ibi.resolver.operations.context import ResolverContext


def _number(name: str, text: str) -> msgspec.Meta:
    return number_field(text, "", *RESOLVER_BOUNDS[name])


class SettingsFields(Fields, frozen=True):
    """What can be changed; what is not given stays as it is."""

    policy: Annotated[Literal["hardened", "strict"], field("How answers are judged")] = UNSET
    registration: Annotated[Literal["closed", "form"], field("Whether Archives may apply at /-/register")] = (
        UNSET
    )
    connect_seconds: Annotated[
        float, _number("connect_seconds", "Seconds that a connection to an Archive may take")
    ] = UNSET
    archive_seconds: Annotated[
        float, _number("archive_seconds", "Seconds that the whole answer of an Archive may take")
    ] = UNSET
    overall_seconds: Annotated[float, _number("overall_seconds", "Seconds that a resolution may take")] = (
        UNSET
    )
    hedge_seconds: Annotated[
        float,
        _number("hedge_seconds", "Seconds to wait for likely holders before all other Archives are queried"),
    ] = UNSET
    grace_seconds: Annotated[
        float,
        _number(
            "grace_seconds",
            "Seconds to wait for the known holder of an original when another Archive was faster",
        ),
    ] = UNSET
    stale_after_seconds: Annotated[
        float,
        _number(
            "stale_after_seconds", "Seconds to wait for a silent Archive before an older answer of it is used"
        ),
    ] = UNSET
    stale_seconds: Annotated[
        int,
        _number(
            "stale_seconds", "Seconds after its expiry for which such an older answer may be used; 0: never"
        ),
    ] = UNSET
    lease_seconds_at_most: Annotated[
        int,
        _number(
            "lease_seconds_at_most",
            "Seconds for which an Archive's answer is used at most, while the Archive says that nothing has changed; "
            "0: Archives are not asked what has changed, and an answer is used for as long as it allows without that",
        ),
    ] = UNSET
    negative_seconds: Annotated[
        int,
        _number(
            "negative_seconds",
            "Seconds for which the resolver remembers that no Archive holds an item; 0: not at all",
        ),
    ] = UNSET
    redirect_seconds: Annotated[
        int,
        _number(
            "redirect_seconds",
            "Seconds for which browsers and proxies may reuse a redirect that is the same for every reader; "
            "clicks that they answer are not counted, here or at the Archive; 0: never",
        ),
    ] = UNSET
    redirect_mebibytes: Annotated[
        int,
        _number(
            "redirect_mebibytes",
            "Mebibytes of memory that each process takes for its cached redirects, about two thirds of a "
            "kibibyte for each; after a change of this setting, all are dropped",
        ),
    ] = UNSET
    original_days: Annotated[
        int,
        _number(
            "original_days",
            "Days after its exclusion for which an Archive stays the known holder of its originals",
        ),
    ] = UNSET
    request_rate: Annotated[
        float,
        _number("request_rate", "Resolutions a second that may ask Archives for one reader; 0: no limit"),
    ] = UNSET
    request_burst: Annotated[
        int, _number("request_burst", "How many such resolutions for one reader at once")
    ] = UNSET
    admin: Annotated[str, field("Mail address of the administrator of this resolver", longest=254)] = UNSET


def show(context: ResolverContext, _fields: NoFields) -> dict[str, Any]:
    """All settings but the secret ones. Raises SetupError."""
    return {"settings": facts_of(ResolverSettings.read(context.data))}


def change(context: ResolverContext, fields: SettingsFields) -> dict[str, Any]:
    """Change settings: all that are given, or none. Raises BadField, SetupError, Conflict."""
    changes = given(fields)
    if not changes:
        raise BadField("nothing to change was given")
    found = change_settings(
        context.data, changes, CHANGEABLE_OVER_HTTP, context.evidence, context.who,
        check=lambda before: context.check_match({"settings": facts_of(before)}),
    )  # fmt: skip
    notes = [context.say(note) for note in found.notes]
    return {"settings": facts_of(found.settings), "changed": list(found.changed), "notes": notes}


def facts_of(settings: ResolverSettings) -> dict[str, Any]:
    """The settings as JSON has them, without secrets."""
    values = {each.name: getattr(settings, each.name) for each in fields_of(settings)}
    return {
        name: str(value) if isinstance(value, IBIForms) else value
        for name, value in values.items()
        if name not in settings.SECRET
    }


_SETTINGS: Final = {"type": "object"}

OPERATIONS: Final[tuple[Operation[ResolverContext, Any], ...]] = (
    Operation(
        "settings", "how the resolver judges", Scope.READ, NoFields, show, "GET /settings",
        gives=record(settings=_SETTINGS), page="policies", command="set",
    ),
    Operation(
        "set", "change settings", Scope.ADMIN, SettingsFields, change, "PATCH /settings",
        gives=record("notes", settings=_SETTINGS, changed=list_of(TEXT), notes=list_of(TEXT)), page="policies",
    ),
)  # fmt: skip
