"""The environment variables that no setting has: what commands take where nothing else is given.

Every command imports this module, also `ibi inspect` on systems that are not Unix: it needs only what Python has there.
Variables that override a setting are read by `settings.toml_file`.
"""

from __future__ import annotations

import os


def environment_data() -> str | None:
    """The data directory of commands that are given no --data (`IBI_DATA`), or None."""
    return os.environ.get("IBI_DATA") or None


def environment_language() -> str | None:
    """The language of the person at the terminal, as a POSIX locale ("pt_BR.UTF-8"), or None."""
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "").partition(":")[0]
        if value:
            return None if value in {"C", "POSIX"} or value.startswith("C.") else value
    return None


def environment_notify_socket() -> str | None:
    """The Unix socket of the service manager (`NOTIFY_SOCKET`; "@" begins an abstract one), or None without one."""
    return os.environ.get("NOTIFY_SOCKET") or None


def environment_resolver() -> str | None:
    """The root URL of the resolver that is asked by commands that are given no --resolver (`IBI_RESOLVER`), or None."""
    return os.environ.get("IBI_RESOLVER") or None


def environment_store(variable: str) -> str | None:
    """The URL of the store that the nodes of a service share, which goes before that of its settings; or None."""
    return os.environ.get(variable)


def environment_wants_traces() -> bool:
    """Whether an endpoint is named for the spans of traces, and the SDK of OpenTelemetry is not switched off."""
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(map(os.environ.get, endpoints)) and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
