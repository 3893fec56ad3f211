"""What this resolver knows of the holders of originals, for Archives that came back from a backup.

GET /-/api/holders?ibi=NAME+NAME…&service=IBI

    {"items": [{"ibi": …, "original": SERVICE or null, "address": "host:port" or "", "removed": …, "disputed": …}]}

`original`: the known holder, the Archive that first showed the Original, or to which it has moved since.
`removed`: whether the known holder has said since that the item was removed; if there is none, whether the
Archive of `service` (which may be left out) has said so. `disputed`: whether several have claimed the
original. Resolving the items tells as much, so no token is needed. No Archive is asked.

See note 45: filters of holdings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import TEXT, TRUTH, Route, answer, in_thread, list_of, record
from ibi.errors import IbiError, ParseError
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_ibi
from ibi.protocol.extensions.holdings import HOLDERS_PATH, MOST_HOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ibi.api.routes import Call
    from ibi.http.response import Response
    from ibi.resolver.cache.hints import HintCache
    from ibi.resolver.model.archive import Archive

_HOLDER: Final = record(
    ibi=TEXT, original={"type": ["string", "null"]}, address=TEXT, removed=TRUTH, disputed=TRUTH
)
_HOLDERS: Final = record(items=list_of(_HOLDER, maxItems=MOST_HOLDERS))


def route(hints: HintCache, archives: Callable[[], Iterable[Archive]]) -> Route:
    """Return the route; `archives` returns the Archives whose addresses are known."""

    def holders(call: Call, _value: Any) -> Response:
        words = call.query.get("ibi", "").split()
        if not 1 <= len(words) <= MOST_HOLDERS:
            why = IbiError("ibi is a list of at most {most} names, with blanks between", most=MOST_HOLDERS)
            raise Refusal(400, why)
        try:
            names = [parse_ibi(word).canonical for word in words]
            service = parse_ibi(call.query["service"]).canonical if "service" in call.query else ""
        except ParseError as error:
            raise Refusal(400, error) from None
        included = {archive.service: archive for archive in archives()}
        pairs = zip(words, names, strict=True)
        return answer({"items": [_holder(hints, included, service, *each) for each in pairs]})

    return Route(
        "GET", HOLDERS_PATH.removeprefix("/-/api"), None, in_thread(holders),
        "which Archives are known to hold originals", gives=_HOLDERS, query={"ibi": TEXT, "service": TEXT},
        refusals=(400,),
    )  # fmt: skip


def _holder(
    hints: HintCache, included: Mapping[str, Archive], service: str, word: str, name: str
) -> dict[str, Any]:
    known = hints.of(name)
    says_so = known.original is None and service != "" and hints.says_removed(name, service)
    archive = included.get(known.original or "")
    return {
        "ibi": word,
        "original": known.original or None,
        "address": archive.address if archive else "",
        "removed": known.removed or says_so,
        "disputed": known.original == "",
    }
