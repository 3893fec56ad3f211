"""A visit of an administrator to a page of a resolver, without a server."""

from __future__ import annotations

from ibi.accounts.layout import PageRequest
from ibi.accounts.people import Role
from ibi.accounts.sign_in import Client, SignedInUser
from ibi.http.request import Request


def visit(rest: str = "", query: str = "", role: Role = Role.ADMINISTRATOR) -> PageRequest:
    """The visit of the account root."""
    signed = SignedInUser("root", role, "token", "session")
    client = Client("127.0.0.1", secure=False, local=True)
    return PageRequest(Request("GET", "/-/admin/x", query, {}), signed, client, rest)
