"""The settings of an Archive that an administrator can change; the service IBI is not among them (ARC-10)."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, NoFields, field, given, number_field
from ibi.api.operations import FieldGroup, Operation
from ibi.api.routes import TEXT, list_of, record
from ibi.archive.store.settings_changes import change_settings
from ibi.errors import BadField
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.settings import ArchiveSettings, settings_lock
from ibi.runtime.settings.rules import ARCHIVE_BOUNDS

if TYPE_CHECKING:
    from ibi.archive.operations.context import ArchiveContext


def _number(name: str, text: str, word: str = "N") -> msgspec.Meta:
    return number_field(text, f"--{name.replace('_', '-')} {word}", *ARCHIVE_BOUNDS[name])


class SettingsFields(Fields, frozen=True):
    """The settings that can be changed; settings that are not given stay as they are."""

    address: Annotated[
        str,
        field(
            "where it answers from now on; the old address goes on being answered", "--address HOST[:PORT]"
        ),
    ] = UNSET
    ip: Annotated[str, field("the IP address of its server", "--ip IP")] = UNSET
    admin: Annotated[str, field("the administrator's mail address", "--admin MAIL")] = UNSET
    mint_host: Annotated[str, field("the host name in new labels; empty for no labels", "--mint-host H")] = (
        UNSET
    )
    mint_ip: Annotated[
        str, field("the IP address in new IBIps; empty for labels without them", "--mint-ip A")
    ] = UNSET
    granularity: Annotated[str, field("seconds between labels: 60, 1, 0.1, … or auto", "--granularity S")] = (
        UNSET
    )
    geo_database: Annotated[
        str,
        field(
            "a MaxMind database that tells readers' countries; empty for none",
            "--geo-database FILE",
            local=True,
        ),
    ] = UNSET
    accel_prefix: Annotated[
        str,
        field(
            "the internal location under which nginx serves DIR/col; empty for none",
            "--accel-prefix PATH",
            local=True,
        ),
    ] = UNSET
    files_group: Annotated[
        str,
        field(
            "the group of a web server that may read the files of items; empty for none",
            "--files-group NAME",
            local=True,
        ),
    ] = UNSET
    files_redirect: Annotated[
        bool,
        field(
            "whether readers fetch files from the S3 store itself, by signed URLs",
            "--files-redirect yes|no",
            local=True,
        ),
    ] = UNSET
    backup_folder: Annotated[
        str,
        field(
            "where backups requested over HTTP are kept; empty for none",
            "--backup-folder DIR",
            local=True,
        ),
    ] = UNSET
    mint_port: Annotated[int, _number("mint_port", "the port in new labels", "P")] = UNSET
    mint_ip_port: Annotated[int, _number("mint_ip_port", "the port in new IBIps", "P")] = UNSET
    platform_software: Annotated[str, field("the IBI of the software", "--platform-software IBI")] = UNSET
    aliases: Annotated[
        tuple[str, ...], field("another name under which it answers", "--alias HOST[:PORT]")
    ] = UNSET
    public_url: Annotated[
        str,
        field(
            "the root of the URLs that readers and programs get, such as https://archive.example; empty: http:// and "
            "the address",
            "--public-url URL",
        ),
    ] = UNSET
    files_address: Annotated[
        str,
        field(
            "another host name, from which files that a browser would render are served; empty for none",
            "--files-address HOST[:PORT]",
        ),
    ] = UNSET
    networks: Annotated[
        tuple[str, ...], field("a network whose readers may have what is restricted", "--network CIDR")
    ] = UNSET
    trusted_resolvers: Annotated[
        tuple[str, ...],
        field(
            "the network of a resolver whose information about readers' addresses is trusted",
            "--trusted-resolver CIDR",
            local=True,
        ),
    ] = UNSET
    trusted_proxies: Annotated[
        tuple[str, ...],
        field("the network of a proxy whose X-Forwarded-For is believed", "--trusted-proxy CIDR", local=True),
    ] = UNSET
    metrics_networks: Annotated[
        tuple[str, ...],
        field("a network from which /-/metrics may be read", "--metrics-network CIDR", local=True),
    ] = UNSET
    reuse_seconds: Annotated[
        int,
        _number(
            "reuse_seconds",
            "seconds for which a resolver may reuse an answer without asking what has changed; "
            "0: no resolver reuses any",
        ),
    ] = UNSET
    largest_upload: Annotated[
        int, _number("largest_upload", "bytes of the largest file that is taken in over HTTP")
    ] = UNSET
    audit_days: Annotated[
        int,
        _number(
            "audit_days", "within how many days every file is read again and compared; 0: only on demand"
        ),
    ] = UNSET
    refresh_hours: Annotated[
        int,
        _number(
            "refresh_hours",
            "hours between two comparisons of copies with their originals, if no change was told; 0: only on demand",
        ),
    ] = UNSET
    page_burst: Annotated[
        int, _number("page_burst", "how many pages about items one reader may have at once")
    ] = UNSET
    costly_burst: Annotated[
        int, _number("costly_burst", "how many searches, feeds and the like one reader may have at once")
    ] = UNSET
    page_rate: Annotated[
        float,
        _number("page_rate", "pages about items a second that one reader may have; 0: no limit"),
    ] = UNSET
    costly_rate: Annotated[
        float,
        _number("costly_rate", "searches, feeds and the like a second that one reader may have; 0: no limit"),
    ] = UNSET
    filter_answers: Annotated[
        bool, field("whether answers hold only what a request needs", "--filter-answers yes|no")
    ] = UNSET
    for_trying: Annotated[
        bool, field("whether labels may be minted under names that no one owns", "--for-trying yes|no")
    ] = UNSET


_GROUPS: Final = (
    FieldGroup(
        "Address",
        (
            "address",
            "aliases",
            "public_url",
            "files_address",
            "ip",
            "admin",
            "platform_software",
        ),
    ),
    FieldGroup("Labels", ("mint_host", "mint_port", "mint_ip", "mint_ip_port", "granularity", "for_trying")),
    FieldGroup("Who may have the data", ("networks",)),
    FieldGroup("Answers that may be reused", ("reuse_seconds", "filter_answers")),
    FieldGroup("How much one reader may ask", ("page_rate", "page_burst", "costly_rate", "costly_burst")),
    FieldGroup("What it does by itself", ("audit_days", "refresh_hours")),
    FieldGroup("Files that come in", ("largest_upload",)),
)


def show(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return all settings except secret ones. Raises SetupError."""
    return {"settings": facts_of(ArchiveSettings.read(context.data))}


def change(context: ArchiveContext, fields: SettingsFields) -> dict[str, Any]:
    """Change settings: all that are given, or none. Raises SetupError, ParseError, BadField, Conflict."""
    changes = given(fields)
    if not changes:
        raise BadField("nothing to change was given")
    if "platform_software" in changes:
        changes["platform_software"] = IBIForms.of(parse_ibi(changes["platform_software"]))
    with settings_lock(context.data):
        before = ArchiveSettings.read(context.data)
        context.check_match({"settings": facts_of(before)})
        found = change_settings(before, changes)
        if found.changed:
            found.settings.write(context.data)
    for note in found.notes:
        context.noted(note)
    return {"settings": facts_of(found.settings), "changed": list(found.changed)}


def facts_of(settings: ArchiveSettings) -> dict[str, Any]:
    """Return the settings as a JSON object, without secret ones."""
    values = {
        each.name: getattr(settings, each.name)
        for each in fields_of(settings)
        if each.name not in settings.SECRET
    }
    return {
        name: str(value)
        if isinstance(value, IBIForms)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }


_SETTINGS: Final = {"type": "object"}
SETTINGS: Final = Operation(
    "settings", "how the Archive is set up", Scope.ADMIN, NoFields, show, "GET /settings",
    gives=record(settings=_SETTINGS),
)  # fmt: skip
SET: Final = Operation(
    "set", "change settings; a running server follows within a second", Scope.ADMIN, SettingsFields, change,
    "PATCH /settings", gives=record(settings=_SETTINGS, changed=list_of(TEXT)), groups=_GROUPS,
)  # fmt: skip

OPERATIONS: Final = (SETTINGS, SET)
