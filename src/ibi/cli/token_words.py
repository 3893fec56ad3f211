"""What `ibi archive token` and `ibi resolver token` share: a token made and printed once, a list, a revocation."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from ibi.identifier.dates import TICKS, date_text
from ibi.texts import printable, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.tokens import Scope, Tokens


def make(tokens: Tokens, name: str, scopes: Iterable[Scope], *, as_json: bool) -> int:
    """Make a token and show it. Raises ParseError, SetupError."""
    scopes, made = tuple(scopes), date_text(time.time_ns() // TICKS * TICKS)
    token = tokens.make(name, made, scopes)
    if as_json:
        print(json.dumps({"name": name, "scopes": scopes, "made": made, "token": token}))
        return 0
    print(printable(say("the token {name} is shown only now:", name=name)), file=sys.stderr)
    print(token)
    return 0


def listed(tokens: Tokens, *, as_json: bool) -> int:
    """Show the names of the tokens, what each may do, and since when. Raises SetupError."""
    if as_json:
        rows = [{"name": known.name, "scopes": known.scopes, "made": known.made} for known in tokens.all()]
        print(json.dumps({"tokens": rows}))
        return 0
    for known in tokens.all():
        print(f"{known.name}  {known.made}  {','.join(known.scopes)}")
    return 0


def revoke(tokens: Tokens, name: str, *, as_json: bool) -> int:
    """Let nobody use a token any more. Raises SetupError."""
    tokens.revoke(name)
    if as_json:
        print(json.dumps({"name": name, "revoked": True}))
    return 0
