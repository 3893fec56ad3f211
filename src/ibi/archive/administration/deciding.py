"""What administrators decide about the Archive itself: its resolvers, tokens of programs, accounts of people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.archive.administration.pages import MembershipPage, TokensPage
from ibi.archive.ledgers import memberships
from ibi.archive.networking.founding import register_command
from ibi.archive.networking.joining import Resolvers, root
from ibi.errors import BadItem
from ibi.settings import changing
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.archive.administration.pages import Page
    from ibi.archive.catalogue import Catalogue
    from ibi.signing_in.visit import Form, Visit


class MembershipForm:
    """The place of the Archive in networks; what is written counts for the running Archive within a second."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, data: Path, catalogue: Catalogue) -> None:
        self._data = data
        self._catalogue = catalogue

    def show(self, _visit: Visit, typed: Form | None) -> MembershipPage:
        """How the Archive stands at each of its resolvers."""
        resolvers = Resolvers.read(self._data)
        with self._catalogue.reading() as run:
            known = memberships.members(run)
        listed = [(url, known.get(url)) for url in resolvers.keys]
        return MembershipPage(resolvers.settings, listed, url=typed.one("url") if typed else "")

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Switch on or off, join or leave."""
        with changing(self._data):
            resolvers = Resolvers.read(self._data)
            match form.one("what"):
                case "on" | "off" as word:
                    resolvers.switching(on=word == "on").write(self._data)
                    return f"{ROOT}/membership?done=switched-{word}"
                case "leave":
                    resolvers.leaving(form.one("url")).write(self._data)
                    return f"{ROOT}/membership?done=left"
                case "join":
                    joined = resolvers.joining(form.one("url"), form.one("key") or None, also=True)
                    joined.write(self._data)
                case _:
                    raise BadItem("this is not the form of this page; open the page again")
        url = root(form.one("url"))
        key = joined.keys[url]
        command = register_command(joined.settings.service, key)
        return replace(self.show(visit, None), joined=url, key=key, command=command)


class TokensForm:
    """The tokens of programs."""

    scope = Scope.ADMIN
    files = False

    def __init__(self, data: Path, moment: Callable[[], str]) -> None:
        self._tokens = Tokens(data)
        self._moment = moment

    def show(self, _visit: Visit, typed: Form | None) -> TokensPage:
        """Those that there are."""
        name, scopes = (typed.one("name"), tuple(typed.many("scope"))) if typed else ("", ())
        return TokensPage(self._tokens.all(), name=name, scopes=scopes)

    def do(self, visit: Visit, form: Form) -> Page | str:
        """Make one, which is shown now and never again; or revoke one."""
        if form.one("revoke"):
            self._tokens.revoke(form.one("revoke"))
            return f"{ROOT}/tokens?done=revoked"
        said = form.many("scope")
        scopes = [scope for scope in Scope if scope in said]
        if not scopes:
            raise BadItem("tick what the token is good for")
        made = self._tokens.make(form.one("name"), self._moment(), scopes)
        return replace(self.show(visit, None), made=made, name=form.one("name"))
