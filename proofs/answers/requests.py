"""The proof: everything is asked of both Archives and of the resolver, and every link is followed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote

from proofs.answers.items import ITEMS, PLACES
from proofs.answers.judge import AnswerJudge, click_faults, link_faults
from proofs.answers.oracle import Reader, Steps, Wanted, World
from proofs.answers.served import LICENSED, UNLICENSED, Stage, service_of, stage
from proofs.common.report import Report, Scale

NAME = "answers"
HOLDS = "each answer, redirect, alert and link as the standard wants it"

COMPOSITIONS: Final = (
    ":",
    ":+",
    "!",
    "!+",
    "!:",
    "!+:",
    "!:+",
    "!+:+",
    "+",
    "+!",
    "+:",
    "+!:",
    "+:+",
    "+!:+",
)
LANGUAGES: Final = ("", "pt", "en", "pt-BR", "de")
FORMATS: Final = ("", "oai_dc", "marc21", "bibtex")
READERS: Final = {
    "": (),
    "pt-BR,fr;q=0.8,en;q=0.5,pt;q=0.3": ("pt-BR", "fr", "en", "pt"),
    "de, es;q=0.1": ("de", "es"),
    "en;q=0.2, fr-CA;q=0.9, pt;q=0": ("fr-CA", "en"),
}
"""Headers, and the languages that they ask for, the most wanted first."""
_VERBS: Final = {"!": "GetLastEdition", "+": "GetTranslation", ":": "GetMetadata"}


class Question(NamedTuple):
    """What is asked of an item by one of its names."""

    name: str
    spelled: str
    steps: Steps
    wanted: Wanted = Wanted()

    @property
    def modifiers(self) -> str:
        """The modifiers as they are written behind a name."""
        return "".join(sign + (f"({parameter})" if parameter else "") for sign, parameter in self.steps)

    @property
    def verbs(self) -> list[str]:
        """The verbs in a message."""
        verbs = [_VERBS[sign] + (f"({parameter})" if parameter else "") for sign, parameter in self.steps]
        return verbs + (["GetFileList"] if self.wanted.file_list else [])


def prove(scale: Scale, seed: int) -> Report:
    """Ask a part of all questions, or all of them."""
    report = Report(NAME, HOLDS)
    for policy in ("hardened", "strict") if scale is Scale.FULL else ("hardened",):
        with stage(policy) as built:
            asking = Asking(built, report, strict=policy == "strict")
            chance = random.Random(seed)
            questions = list(every_question())
            if scale is not Scale.FULL:
                questions = chance.sample(questions, scale.pick(60, 2_000, 0))
            for question in questions:
                asking.ask(question)
            asking.look_at_all()
    return report


def every_question() -> Iterator[Question]:
    """Each item with each composition, with all parameters; its files and their list; and by all its names."""
    for name, item in ITEMS.items():
        first, *others = _names(name)
        for composition in ("", *COMPOSITIONS):
            choices = [
                LANGUAGES if sign == "+" else FORMATS if sign == ":" else ("",) for sign in composition
            ]
            for parameters in itertools.product(*choices):
                yield Question(name, first, tuple(zip(composition, parameters, strict=True)))
        for steps in ((), (("!", ""),), (("+", ""),), (("+", "en"),), (("!", ""), ("+", ""))):
            for file in ("nothing.txt", "text.txt", *item.get("files", {})):
                yield Question(name, first, steps, Wanted(path=f"/{file}"))
            yield Question(name, first, steps, Wanted(file_list=True))
            yield Question(name, first, steps, Wanted(licensed=True))
            yield from (Question(name, other, steps) for other in others)


def _names(name: str) -> list[str]:
    item = ITEMS[name]
    both = [item[form] for form in ("rep", "ibip") if item[form]]
    return [*both, *(each.upper() for each in both), *item.get("aliases", [])]


@dataclass
class Asking:
    """Asks, judges, and writes down what is wrong, with the way to repeat it."""

    stage: Stage
    report: Report
    strict: bool
    _followed: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.world = World(ITEMS, self.stage.addresses)
        for what in ("answers", "clicks", "redirects", "alerts", "links"):
            self.report.count(what, 0)

    def ask(self, question: Question) -> None:
        """Ask both Archives, then click as several readers."""
        for place in PLACES:
            self._ask_archive(place, question)
        headers = list(READERS) if ("+", "") in question.steps else list(READERS)[:1]
        for header in headers:
            for original in (False, True):
                self._click(question, header, original=original)

    def _ask_archive(self, place: str, question: Question) -> None:
        wanted = question.wanted
        reader = LICENSED if wanted.licensed else UNLICENSED
        pairs = {
            "clientinformation.ipaddress": reader,
            "parsedibiurl.filepath": wanted.path,
            "parsedibiurl.ibi": question.spelled,
            "parsedibiurl.verblist": " ".join(question.verbs),
            "servicesubject": "urlRequest",
        }
        query = "&".join(f"{key}={quote(text, safe='/:@()!')}" for key, text in pairs.items() if text)
        target = f"/{service_of(place)}?{query}"
        reply = self.stage.get(place, target)
        self.report.count("answers")
        judge = AnswerJudge(self.world, place, service_of(place), question.name, question.steps, wanted)
        for fault in judge.faults(reply):
            self.report.violate(f"{question.name}: {fault}; ask the {place} Archive for {target}")

    def _click(self, question: Question, header: str, *, original: bool) -> None:
        wanted = question.wanted
        who = LICENSED if wanted.licensed else UNLICENSED
        query = ["ibiurl.requireditemstatus=Original"] if original else []
        query += ["ibiurl.verblist=GetFileList"] if wanted.file_list else []
        target = (
            f"/{question.spelled}{question.modifiers}{wanted.path}" + ("?" if query else "") + "&".join(query)
        )
        headers = {"host": "resolver.test", "accept": "application/problem+json", "accept_language": header}
        reply = self.stage.get("resolver", target, who, **headers)
        self.report.count("clicks")
        reader = Reader(READERS[header], original, self.strict)
        outcomes = self.world.outcomes(question.name, question.steps, wanted, reader)
        for fault in click_faults(reply, outcomes):
            self.report.violate(f"{question.name}: {fault}; click {target} with Accept-Language {header!r}")
        if "location" not in reply.headers:
            self.report.count("alerts")
            return
        self.report.count("redirects")
        self.follow(reply.headers["location"], who)

    def follow(self, url: str, who: str) -> None:
        """Follow a link, unless this reader has followed it before."""
        if (url, who) in self._followed or not url:
            return
        self._followed.add((url, who))
        self.report.count("links")
        reply = self.stage.get_url(url, who)
        for fault in link_faults(self.world, url, reply, licensed=who == LICENSED):
            self.report.violate(f"{fault}; follow {url} from {who}")

    def look_at_all(self) -> None:
        """Look where no redirect leads, too: at files that are withheld, and at what was removed."""
        for item in ITEMS.values():
            for place in item["held"]:
                ibi, base = item["rep"] or item["ibip"], f"http://{self.stage.addresses[place]}"
                pages = [f"{base}/-/{kind}/{ibi}" for kind in ("item", "files")]
                files = [f"{base}/col/{ibi}/doc/{file}" for file in item.get("files", {})]
                for url, who in itertools.product(pages + files, (UNLICENSED, LICENSED)):
                    self.follow(url, who)
