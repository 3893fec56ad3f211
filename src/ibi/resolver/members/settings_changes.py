"""Changes of a resolver's settings while it runs: checked before they are written (note 7: the two policies).

Service IBI, keys, the mail server, upstream and mirrored resolver are changed by hand in resolver.toml, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError, SetupError
from ibi.http.response import Refusal
from ibi.runtime.settings import ResolverSettings, settings_lock
from ibi.runtime.settings.rules import (
    RESOLVER_BOUNDS,
    RESOLVER_CHOICES,
    WHOLE,
    check_admin,
    check_choice,
    check_networks,
    check_number,
    check_public_url,
    with_point,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ibi.resolver.evidence.log import Evidence

CHANGEABLE_OVER_HTTP: Final = (*RESOLVER_CHOICES, *RESOLVER_BOUNDS, "admin")
"""Settings that can be changed by command, on the page, and, with a field in `SettingsFields`, as JSON."""
# A stolen token or session must not change whom the resolver trusts: that takes access to the machine. So the further
# settings of this list have no field in `SettingsFields` (`resolver.operations.settings`).
CHANGEABLE_BY_COMMAND: Final = (
    *CHANGEABLE_OVER_HTTP,
    "aliases",
    "allow_private_archives",
    "metrics_networks",
    "public_url",
)
"""Settings that `ibi resolver set` changes."""

_TRUE: Final = {"yes": True, "no": False, "true": True, "false": False}
_NOTHING: Final[Mapping[str, str]] = {}


def _unchecked(_settings: ResolverSettings) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Changed settings, the names of those that changed, and what the administrator should know."""

    settings: ResolverSettings
    changed: tuple[str, ...]
    notes: tuple[IbiError, ...]


def change_settings(
    data: Path,
    changes: Mapping[str, Any],
    names: tuple[str, ...],
    evidence: Evidence,
    by: str,
    expected: Mapping[str, str] = _NOTHING,
    check: Callable[[ResolverSettings], None] = _unchecked,
) -> SettingsChange:
    """Change settings of a data directory: all of these `changes`, or none. Not for an event loop.

    A value is from JSON, or a text as it was typed. Only `names` may be changed. Each change is recorded in
    the evidence, with `by`, before it takes effect. `expected`: the values that the form showed. `check` is given
    the current settings, under the lock of the change. Raises SetupError, what `check` raises, and Refusal
    (409) if a current value is neither the expected nor the new one.
    """
    wanted = {name: checked_setting(name, value, names) for name, value in changes.items()}
    with settings_lock(data):
        before = ResolverSettings.read(data)
        check(before)
        after = replace(before, **wanted)
        after.check_environment()
        changed = tuple(name for name in changes if getattr(before, name) != getattr(after, name))
        facts = [
            (name, setting_text(getattr(before, name)), setting_text(getattr(after, name)))
            for name in changed
        ]
        for name, old, _ in facts:
            # If two administrators have the form open, the second must not undo what the first has changed.
            if expected.get(name, old) != old:
                problem = (
                    "somebody else has changed {name} meanwhile, so nothing was saved: now it is {value}"
                )
                raise Refusal(409, IbiError(problem, name=name, value=old or "-"))
        for name, old, new in facts:
            evidence.write("setting", name=name, before=old, after=new, by=by)
        if changed:
            after.write(data)
    notes = []
    if "stale_seconds" in changed:
        notes.append(IbiError("{name} takes effect once the resolver is restarted", name="stale_seconds"))
    return SettingsChange(after, changed, tuple(notes))


def setting_text(value: object) -> str:
    """Write the value of a setting as a person types it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def checked_setting(name: str, value: Any, names: tuple[str, ...]) -> Any:
    """Read the value of a setting, from JSON or as it was typed. Raises SetupError."""
    if name not in names:
        raise SetupError("{name} is no setting that is changed here; these are: {names}",
                         name=name[:80], names=", ".join(names))  # fmt: skip
    if name in RESOLVER_BOUNDS:
        return _number(name, value)
    if name in RESOLVER_CHOICES:
        check_choice(RESOLVER_CHOICES, name, value)
        return value
    return _OTHERS[name](value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, str):
        try:
            value = int(value) if name in WHOLE else float(with_point(value))
        except ValueError:
            value = None
    check_number(RESOLVER_BOUNDS, name, value)
    number: float = value if name in WHOLE else float(value)
    return number


def _admin(value: Any) -> str:
    check_admin("admin", value)
    return str(value)


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value in _TRUE:
        return _TRUE[value]
    raise SetupError("{name} is yes or no", name="allow_private_archives")


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in str(value).split(",") if text.strip()))


def _networks(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    check_networks("metrics_networks", texts)
    return tuple(str(ip_network(text)) for text in texts)


def _public_url(value: Any) -> str:
    check_public_url("public_url", str(value))
    return str(value).removesuffix("/")


_OTHERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "admin": _admin,
    "aliases": _texts,
    "allow_private_archives": _truth,
    "metrics_networks": _networks,
    "public_url": _public_url,
}
