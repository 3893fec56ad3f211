"""The questions of `ibi init`: what is asked, when, what is proposed, and which answers can be used.

Nothing here reads or prints anything: the facts of the machine come with the `Draft`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.membership.founding import AnswerChecks, trial_host
from ibi.cli.asking import usable
from ibi.cli.setup.answers import ARCHIVE, BOTH, DEFAULT_PORTS, NO_PROXY, RESOLVER, Answers
from ibi.errors import IbiError, ParseError
from ibi.identifier.generator import LabelGenerator
from ibi.identifier.ibip import canonical_ip
from ibi.identifier.repository import LAST_PORT
from ibi.runtime.json_list import LONGEST_NAME, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.cli.setup.surroundings import Surroundings

SERVICE_KINDS: Final[Mapping[str, IbiError]] = {
    ARCHIVE: IbiError("an Archive, which keeps items"),
    RESOLVER: IbiError("a resolver, which leads links to the items of Archives"),
    BOTH: IbiError("both, on this machine"),
}
PROXIES: Final[Mapping[str, IbiError]] = {
    "caddy": IbiError("Caddy, which gets certificates by itself"),
    "nginx": IbiError("nginx, with a certificate of your own"),
    "haproxy": IbiError("HAProxy, with a certificate of your own"),
    NO_PROXY: IbiError("no proxy and no https"),
}

_SHOWN: Final = 80
_HOST: Final = re.compile(
    r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
)
_SIGNS: Final = "\"'\\$%;"
_UNIT_SYNTAX: Final = re.compile(rf"[\s{re.escape(_SIGNS)}]|[^\x20-\x7e\xa0-\uffff]")
"""What a path in a unit of systemd, or in a script, must not have."""
_HTTP: Final = 80


@dataclass(slots=True)
class Draft:
    """The answers so far, by the names of questions, and what else decides about the next ones.

    `former`: the answers of an earlier run in the same folder; `behind_nat`: whether the IP address may be another
    machine's, which passes requests on to this one.
    """

    machine: Surroundings
    for_trying: bool = False
    behind_nat: bool = False
    former: Answers | None = None
    values: dict[str, str] = field(default_factory=dict)

    def give(self, name: str, answer: str) -> None:
        """Note an answer. That of the folder brings those of an earlier run in it."""
        self.values[name] = answer
        if name == "data":
            self.former = self.machine.former(Path(answer))
            if self.former is not None:
                self.for_trying = self.former.for_trying
                self.values |= {"account": self.former.account, "resolver": self.former.resolver}

    def has(self, name: str, *values: str) -> bool:
        """Return whether a question has one of these answers."""
        return self.values.get(name) in values

    def answers(self) -> Answers:
        """Return the answers to all questions."""
        numbers = {name: int(self.values[name]) for name in ("port", "resolver_port") if name in self.values}
        texts = {name: text for name, text in self.values.items() if name != "data" and name not in numbers}
        return Answers(**texts, **numbers, for_trying=self.for_trying)  # type: ignore[arg-type]  # by name


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `name`: that of its answer and of its option.

    `check` returns an answer as it is kept, or raises IbiError; `doubt` returns why an answer may be wrong, or None.
    `proposal`: what an empty answer stands for; "" for nothing. `choices`: each answer, with words for it.
    `is_optional`: whether an empty answer is one.
    """

    name: str
    text: Callable[[Draft], IbiError]
    check: Callable[[str, Draft], str]
    proposal: Callable[[Draft], str]
    applies: Callable[[Draft], bool] = lambda _: True
    doubt: Callable[[str, Draft], IbiError | None] = lambda _, __: None
    choices: Mapping[str, IbiError] = field(default_factory=dict)
    is_optional: bool = False

    def proposed(self, draft: Draft) -> str:
        """Return what an empty answer stands for: the former answer, or else the proposal; "" for nothing usable."""
        known = getattr(draft.former, self.name, "") if draft.former else ""
        return usable(lambda text: self.check(text, draft), str(known or self.proposal(draft)))


def open_questions(draft: Draft) -> list[Question]:
    """Return the questions that apply and have no answer yet, in order."""
    return [each for each in QUESTIONS if each.name not in draft.values and each.applies(draft)]


def option(name: str) -> str:
    """Return the option of a question."""
    return f"--{name.replace('_', '-')}"


def _choice(choices: Mapping[str, IbiError], text: str) -> str:
    """Return the choice that a number or a word stands for."""
    word = text.strip().lower()
    numbered = {str(number): name for number, name in enumerate(choices, 1)}
    chosen = numbered.get(word, word)
    if chosen not in choices:
        raise IbiError("the answer is one of: {words}", words=", ".join(choices))
    return chosen


def _kind(text: str, draft: Draft) -> str:
    kind = _choice(SERVICE_KINDS, text)
    if draft.former and kind != draft.former.kind:
        problem = "{kind} was set up in this folder; give another folder for anything else"
        raise IbiError(problem, kind=SERVICE_KINDS[draft.former.kind])
    return kind


def _folder(text: str, draft: Draft) -> str:
    folder = Path(text).expanduser().absolute()
    if not text or _UNIT_SYNTAX.search(str(folder)):
        raise IbiError("give the path of a folder without blanks and without any of: {signs}", signs=_SIGNS)
    fault = draft.machine.folder_fault(folder)
    if fault is not None:
        raise fault
    return str(folder)


def _host(text: str, draft: Draft, kept: str) -> str:
    """Check a host name; `kept`: that of an earlier run, which stays."""
    name = text.strip().lower().removesuffix(".")
    if _HOST.fullmatch(name) is None:
        problem = (
            "this is not the name of a host: {text}; such a name has letters without accents, digits, hyphens and "
            "dots, as archive.example.org has"
        )
        raise IbiError(problem, text=text[:_SHOWN])
    if kept and name != kept:
        problem = "it is called {old}, which is part of the links that it has given, and stays so"
        raise IbiError(problem, old=kept)
    if not draft.for_trying and "." not in name:
        raise IbiError("a whole name is needed, such as archive.example.org, and not {host}", host=name)
    if not draft.for_trying and _is_ip(name):
        raise IbiError("a name is needed, and not an IP address, which may get another owner")
    LabelGenerator(trial_host(name) if draft.for_trying else name, for_trying=draft.for_trying)
    return name


def _is_ip(name: str) -> bool:
    try:
        canonical_ip(name)
    except ParseError:
        return False
    return True


def _domain(text: str, draft: Draft) -> str:
    return _host(text, draft, draft.former.domain if draft.former else "")


def _resolver_domain(text: str, draft: Draft) -> str:
    name = _host(text, draft, draft.former.resolver_domain if draft.former else "")
    if name == draft.values["domain"] and not draft.for_trying:
        raise IbiError("the Archive and the resolver need different names")
    return name


def _ip(text: str, draft: Draft) -> str:
    checks = AnswerChecks(mints_host=True, mints_ip=True, for_trying=draft.for_trying)
    return checks.ip(text.strip())


def _doubt_about_ip(ip: str, draft: Draft) -> IbiError | None:
    former = draft.former.ip if draft.former else ""
    if draft.behind_nat or ip == former or draft.machine.is_own(ip):
        return None
    problem = "{ip} is not an address of this machine; a router must pass requests for it on to this machine"
    return IbiError(problem, ip=ip)


def _proposed_ip(draft: Draft) -> str:
    """Propose the address that the name leads to, or else this machine's own."""
    return next(iter(draft.machine.found(draft.values["domain"])), draft.machine.own_address())


def _port_of(name: str) -> Callable[[str, Draft], str]:
    def check(text: str, draft: Draft) -> str:
        digits = text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_PORT))
        port = int(text) if digits else 0
        if not 0 < port <= LAST_PORT:
            raise IbiError("a port is a whole number from {least} to {most}", least=1, most=LAST_PORT)
        if name != "port" and str(port) == draft.values["port"]:
            raise IbiError("the Archive and the resolver need different ports")
        is_former = draft.former is not None and port == getattr(draft.former, name)
        host = "0.0.0.0" if draft.has("proxy", NO_PROXY) else "127.0.0.1"  # noqa: S104 - as PlannedService.host
        if not is_former and not draft.machine.is_free(host, port):
            raise IbiError("another program listens at port {port}; give another one", port=port)
        return str(port)

    return check


def _proposed_port(name: str) -> Callable[[Draft], str]:
    def propose(draft: Draft) -> str:
        is_archive = name == "port" and not draft.has("kind", RESOLVER)
        usual = DEFAULT_PORTS[ARCHIVE if is_archive else RESOLVER]
        first = _HTTP if draft.has("proxy", NO_PROXY) and name == "port" else usual
        check = _port_of(name)
        candidates = map(str, (first, *range(usual, usual + 50)))
        return next((each for each in candidates if usable(lambda text: check(text, draft), each)), "")

    return propose


def _admin(text: str, _draft: Draft) -> str:
    return AnswerChecks.admin(text.strip())


def _account(text: str, _draft: Draft) -> str:
    if not is_name(text):
        problem = (
            "the name of an account is made of at most {most} letters without accents, digits, dots, hyphens "
            "and underlines, without blanks"
        )
        raise IbiError(problem, most=LONGEST_NAME)
    return text


def _asks_port(draft: Draft) -> IbiError:
    if draft.has("proxy", NO_PROXY):
        return IbiError("At which port does {name} answer?", name=draft.values["domain"])
    return IbiError("At which port of this machine does the proxy find {name}?", name=draft.values["domain"])


def _asks_resolver_port(draft: Draft) -> IbiError:
    if draft.has("proxy", NO_PROXY):
        return IbiError("At which port does {name} answer?", name=draft.values["resolver_domain"])
    return IbiError(
        "At which port of this machine does the proxy find {name}?", name=draft.values["resolver_domain"]
    )


def _asks_domain(draft: Draft) -> IbiError:
    if draft.has("kind", RESOLVER):
        return IbiError("What is the name of the resolver, such as resolver.example.org?")
    return IbiError("What is the name of the Archive, such as archive.example.org?")


def _proposed_resolver_domain(draft: Draft) -> str:
    first, dot, rest = draft.values["domain"].partition(".")
    return draft.values["domain"] if _is_ip(draft.values["domain"]) else f"resolver{dot}{rest or first}"


def _has_archive(draft: Draft) -> bool:
    return draft.has("kind", ARCHIVE, BOTH)


QUESTIONS: Final = (
    Question(
        "data",
        lambda _: IbiError("In which folder is all of it kept?"),
        _folder,
        lambda draft: draft.machine.usual_folder,
    ),
    Question(
        "kind",
        lambda _: IbiError("What do you want to run?"),
        _kind,
        lambda _: ARCHIVE,
        choices=SERVICE_KINDS,
    ),
    Question("domain", _asks_domain, _domain, lambda draft: draft.machine.host_name()),
    Question(
        "resolver_domain",
        lambda _: IbiError("What is the name of the resolver, such as resolver.example.org?"),
        _resolver_domain,
        _proposed_resolver_domain,
        lambda draft: draft.has("kind", BOTH),
    ),
    Question(
        "ip",
        lambda draft: IbiError(
            "What is the public IP address of {name}, which becomes part of the names of items?",
            name=draft.values["domain"],
        ),
        _ip,
        _proposed_ip,
        _has_archive,
        _doubt_about_ip,
    ),
    Question(
        "proxy",
        lambda _: IbiError("Which proxy serves https in front of it?"),
        lambda text, _: _choice(PROXIES, text),
        lambda _: "caddy",
        choices=PROXIES,
    ),
    Question("port", _asks_port, _port_of("port"), _proposed_port("port")),
    Question(
        "resolver_port",
        _asks_resolver_port,
        _port_of("resolver_port"),
        _proposed_port("resolver_port"),
        lambda draft: draft.has("kind", BOTH),
    ),
    Question(
        "admin",
        lambda _: IbiError("What is the administrator's mail address?"),
        _admin,
        lambda draft: f"admin@{draft.values['domain']}",
    ),
    Question(
        "account",
        lambda _: IbiError("Under which name does the administrator sign in with a browser?"),
        _account,
        lambda _: "admin",
        lambda draft: draft.former is None,
    ),
    Question(
        "resolver",
        lambda _: IbiError("Which resolver does it take part in (http://host; empty: none yet)?"),
        lambda text, _: AnswerChecks.resolver(text.strip()),
        lambda _: "",
        lambda draft: draft.has("kind", ARCHIVE) and draft.former is None,
        is_optional=True,
    ),
)
"""All questions, in the order in which they are asked."""
