"""Each setting is either among the rules by which answers are made, or said not to be."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.service.changes import rules_digest
from ibi.archive.store.data_directory import identity_of
from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = ArchiveSettings(
    address="archive.example",
    ip="192.0.2.1",
    service=IBIForms.parse("rep archive.example/w/2020/01.01.00.00"),
    key="12345678901234567890",
    secret="ab" * 32,
    admin="admin@archive.example",
)
CHANGED: Final[Mapping[str, object]] = {
    "address": "other.example",
    "service": IBIForms.parse("rep other.example/w/2020/01.01.00.00"),
    "secret": "cd" * 32,
    "platform_software": SETTINGS.service,
    "public_url": "https://archive.example",
    "relations": ("", ".metadata"),
    "filter_answers": False,
    "networks": ("192.0.2.0/24",),
    "trusted_resolvers": ("192.0.2.0/24",),
    "reuse_seconds": 0,
}
"""Another value of each setting that decides what an answer says, or how long it may be kept."""
OTHERS: Final[Mapping[str, str]] = {
    "who runs it, and where it takes part": "ip key admin resolver resolver_service switched_on retired",
    "under which names and by whom it is asked": "aliases trusted_proxies metrics_networks",
    "which names new items get": "mint_host mint_port mint_ip mint_ip_port granularity for_trying",
    "how much it takes in, and lets readers ask": (
        "largest_upload page_rate page_burst costly_rate costly_burst geo_database"
    ),
    "how files are kept and sent; an answer has the URL of a page or a file, which stays": (
        "files_address files_group accel_prefix files files_redirect backup_folder audit_days store"
    ),
    "what else it tells resolvers; changes of items are logged whatever it is": "holdings_filter refresh_hours",
}
"""Why the other settings need not be among the rules: no answer says anything of them."""


def digest(settings: ArchiveSettings) -> int:
    return rules_digest(identity_of(settings), settings)


def test_each_setting_that_decides_answers_is_among_their_rules_and_each_other_one_is_listed() -> None:
    others = [name for names in OTHERS.values() for name in names.split()]
    # A new setting belongs in one of the two lists: if an answer depends on it, in `rules_digest`, too. Otherwise
    # resolvers go on with cached answers after it was changed.
    assert sorted([*CHANGED, *others]) == sorted(each.name for each in fields(ArchiveSettings))
    for name, value in CHANGED.items():
        assert digest(replace(SETTINGS, **{name: value})) != digest(SETTINGS), name  # type: ignore[arg-type]  # by name
