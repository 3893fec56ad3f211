"""Who may change which setting of a resolver, and when a change takes effect: decided for each."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from ibi.resolver.members.settings_changes import CHANGEABLE_BY_COMMAND, CHANGEABLE_OVER_HTTP
from ibi.runtime.settings import ResolverSettings

WHO_IS_TRUSTED: Final = "aliases allow_private_archives metrics_networks public_url"
"""A stolen token must not change these: only the command does, on the machine."""
BY_HAND: Final = (
    "address service store",  # the resolver would be another one
    "upstream upstream_token mirror mirror_key",  # whom it asks, and whose list it takes
    "smtp smtp_password_file mail_from express",  # what is set up once, with the machine
)
"""Changed in `resolver.toml` while it rests."""


def test_each_setting_is_changed_over_http_or_by_the_command_or_by_hand() -> None:
    # A new setting that is no number belongs here: with those whom a resolver trusts, or those that are changed by
    # hand. Otherwise it belongs into CHANGEABLE_OVER_HTTP, and has a field on the page.
    assert sorted(set(CHANGEABLE_BY_COMMAND) - set(CHANGEABLE_OVER_HTTP)) == sorted(WHO_IS_TRUSTED.split())
    by_hand = [name for names in BY_HAND for name in names.split()]
    every = sorted(each.name for each in fields(ResolverSettings))
    assert sorted([*CHANGEABLE_BY_COMMAND, *by_hand]) == every
