"""One Archive, whose operations are done by JSON, by page and by command: what comes of each way."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pytest

from ibi.api import accounts
from ibi.api.fields import described
from ibi.api.jobs import RUNNING, Jobs
from ibi.api.operations import Operation
from ibi.archive.operations.listed import OPERATIONS
from ibi.cli import main
from support.archive.administration_fixture import Librarian
from support.archive.archive_fixture import Answer
from support.web.html_form import HtmlForm, forms_of

JSON, PAGE, COMMAND = "JSON", "page", "command"
EVERY: tuple[Operation[Any, Any], ...] = (*OPERATIONS, *accounts.OPERATIONS)
BY_NAME = {each.name: each for each in EVERY}
UNKNOWN = "x.example/y/2000/01.01.00.00"
SURE = ("sure", "yes")
Given = Mapping[str, str | bytes]
T = TypeVar("T")


@contextmanager
def equal_beginnings(folder: Path, begin: Callable[[ExitStack, str, Path], T]) -> Iterator[list[T]]:
    """What an act is done to by each way: three that begin alike, each in a folder of its own.

    `begin` makes one of them, of a stack that closes what it opens, the way, and its folder.
    """
    with ExitStack() as stack:
        made = []
        for way in (JSON, PAGE, COMMAND):
            (folder / way).mkdir()
            made.append(begin(stack, way, folder / way))
        yield made


@dataclass(frozen=True)
class OwnPage:
    """The page of an act that is not made from its fields.

    `path`: below /-/admin, with the fields that are in it; `what`: which of its forms, "" for the only one;
    `more`: what the form sends besides fields; `called`: fields that are called otherwise on the page.
    """

    path: str
    what: str = ""
    more: tuple[tuple[str, str], ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> set[str]:
        """The fields that are in the path."""
        return set(re.findall(r"{(\w+)}", self.path))


OWN_PAGES = {
    "deposit": OwnPage("deposit"),
    "edit": OwnPage("edit/{ibi}"),
    "put-file": OwnPage("files/{ibi}"),
    "take-out-file": OwnPage("files/{ibi}", more=(SURE,), called={"file": "without"}),
    "delete": OwnPage("delete/{ibi}", more=(SURE,)),
    "copy": OwnPage("copy"),
    "hand-over": OwnPage("transfer/{ibi}", more=(SURE,)),
    "take-back": OwnPage("transfer"),
    "set-institution": OwnPage("identity"),
    "join": OwnPage("membership", "join"),
    "leave": OwnPage("membership", "leave", more=(SURE,)),
    "switch": OwnPage("membership", "switch", more=(SURE,)),
    "add-account": OwnPage("accounts", "add"),
    "remove-account": OwnPage("accounts", "remove", more=(SURE,)),
    "set-password": OwnPage("accounts", "password", more=(SURE,)),
    "set-role": OwnPage("accounts", "role"),
    "make-token": OwnPage("tokens"),
    "revoke-token": OwnPage("tokens", "revoke", more=(SURE,)),
}
"""The pages of all acts that change something and have pages of their own."""

WORDS: dict[str, Callable[[Given], list[str]]] = {
    "forget-peer": lambda given: ["peer", "--remove", "--name", str(given["name"])],
    "put-file": lambda given: ["edit", str(given["ibi"]), "--file", str(given["upload"])],
    "take-out-file": lambda given: ["edit", str(given["ibi"]), "--without", str(given["file"])],
    "make-token": lambda given: [
        "token", "--name", str(given["name"]), *(["--scope", str(given["scopes"])] if "scopes" in given else [])
    ],
    "revoke-token": lambda given: ["token", "--revoke", str(given["name"])],
}  # fmt: skip
"""Commands whose words are not the options of the fields."""


@dataclass(frozen=True)
class Came:
    """What came of one way: the sentence of a refusal, or the result; `beside`: what a command says beside it."""

    refusal: str = ""
    result: Any = None
    beside: str = ""


@dataclass
class Ways:
    """Three ways to one Archive."""

    data: Path
    root: Librarian
    token: str
    capsys: pytest.CaptureFixture[str]
    folder: Path

    def by_json(self, operation: Operation[Any, Any], given: Given, **headers: str) -> Came:
        answer = self.request(operation, given, **headers)
        if answer.status >= 400:
            return Came(json.loads(answer.body)["detail"])
        if operation.is_long:
            assert answer.status == 202
            return self._ended(json.loads(answer.body))
        kind = answer.headers.get("content-type", "")
        return Came(result=json.loads(answer.body) if kind == "application/json" else answer.body or None)

    def request(self, operation: Operation[Any, Any], given: Given, **headers: str) -> Answer:
        values = {
            name: self.uploaded(text) if isinstance(text, bytes) else text for name, text in given.items()
        }
        path = operation.pattern
        for place in operation.place.split():
            path = re.sub("<[a-z]+>", quote(values.pop(place), ""), path, count=1)
        kinds = {each.name: each for each in described(operation.fields)}
        needed = {name for name, each in kinds.items() if each.required} - set(operation.place.split())
        body = None
        if operation.in_query:
            path += f"?{urlencode(values)}" if values else ""
        elif values or operation.takes or needed:
            body = json.dumps({name: _value(kinds[name], text) for name, text in values.items()}).encode()
        return self.program(
            operation.method, path, body, content_type="application/json" if body else "", **headers
        )

    def program(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        usual = {"authorization": f"Bearer {self.token}", "accept": "", "cookie": ""}
        return self.root.ask(method, f"/-/api{path}", body, **{**usual, **headers})

    def own_form(self, operation: Operation[Any, Any], given: Given) -> tuple[str, HtmlForm]:
        """Look at the page of its own that an act has; the path and the form that does the act, as it is untouched."""
        own = OWN_PAGES[operation.name]
        path = f"/-/admin/{own.path.format(**given)}"
        forms = [each for each in forms_of(self.root.look(path).text) if each.action == path]
        fitting = [each for each in forms if each.one("what") == (own.what or None)]
        return path, next(
            iter([*fitting, *(each for each in forms if each.one("what") is None)]), HtmlForm(path)
        )

    def send_own(self, operation: Operation[Any, Any], given: Given, *, without: str = "") -> Answer:
        """Send the form of a page of its own as a browser does, but not the field `without`."""
        own, (path, form) = OWN_PAGES[operation.name], self.own_form(operation, given)
        texts = {
            own.called.get(name, name): text
            for name, text in given.items()
            if isinstance(text, str) and name not in own.places
        }
        typed = [*texts.items(), *own.more, *([("what", own.what)] if own.what else [])]
        names = {"form_token", without, *(name for name, _ in typed)}
        sent = [*((name, text) for name, text in form.sent if name not in names), *typed]
        files = [(str(given["file"]), text) for text in given.values() if isinstance(text, bytes)]
        if not files:
            return self.root.send(path, *sent)
        parts = [("file", name, text) for name, text in files]
        return self.root.send_files(path, *((name, None, text.encode()) for name, text in sent), *parts)

    def by_page(self, operation: Operation[Any, Any], given: Given) -> Came:
        if operation.page:
            answer = self.send_own(operation, given)
            return Came(
                problem_of(answer),
                None if answer.status >= 400 else answer.headers.get("location", answer.text),
            )
        path = f"/-/admin/do/{operation.name}"
        if not operation.changes:
            shown = self.root.look(f"{path}?{urlencode(given)}")
            return Came(problem_of(shown), None if shown.status >= 400 else _without_tags(shown))
        self.root.look(path)
        kept = [
            (name, self.root.hidden(name))
            for name in re.findall(
                r'name="(was\.\w+|version)"', self.root.page.text if self.root.page else ""
            )
        ]
        before = dict(kept)
        typed = {
            each.name: before.get(f"was.{each.name}", "")
            for each in described(operation.fields)
            if not each.local
        }
        texts = {name: text for name, text in {**typed, **given}.items() if isinstance(text, str)}
        files = [(name, name, text) for name, text in given.items() if isinstance(text, bytes)]
        fields = [*kept, *texts.items(), *([("sure", "yes")] if operation.warning else [])]
        if files:
            answer = self.root.send_files(
                path, *((name, None, text.encode()) for name, text in fields), *files
            )
        else:
            answer = self.root.send(path, *fields)
        if answer.status == 303:
            job = answer.headers["location"].rpartition("=")[2]
            return self._ended(json.loads(self.program("GET", f"/jobs/{job}").body))
        return Came(problem_of(answer), None if answer.status >= 400 else _without_tags(answer))

    def root_value(self, name: str) -> str:
        """What stands in a field of the page."""
        assert self.root.page is not None
        text = self.root.page.text
        area = re.search(rf'<textarea id="{name}"[^>]*>([^<]*)</textarea>', text)
        chosen = re.search(rf'<select id="{name}".*?<option value="(\w+)" selected>', text, re.DOTALL)
        typed = re.search(rf'<input id="{name}"[^>]* value="([^"]*)"', text)
        found = area or chosen or typed
        return unescape(found[1]) if found else ""

    def by_command(self, operation: Operation[Any, Any], given: Given, *more: str) -> Came:
        words, given = [*more], self._with_paths(given)
        if operation.name in WORDS:
            return self._typed([*WORDS[operation.name](given), *more])
        if operation.name in {"add-account", "set-password"}:
            words += ["--generate"]
        for each in described(operation.fields):
            text = given.get(each.name)
            if text is None:
                continue
            option, _, shown = (each.option or f"--{each.name.replace('_', '-')} X").partition(" ")
            words += (
                [option, text]
                if (shown or not each.is_truth) and option.startswith("-")
                else [option if option.startswith("-") else text]
            )
        return self._typed([*(operation.command or operation.name).split(), *words])

    def _with_paths(self, given: Given) -> dict[str, str]:
        """The same with the path of a file in the place of its bytes."""
        found = dict(given)
        for name, content in given.items():
            if isinstance(content, bytes):
                path = self.folder / str(given.get("file", name))
                path.write_bytes(content)
                found[name] = str(path)
        return {name: str(text) for name, text in found.items()}

    def _typed(self, words: list[str]) -> Came:
        self.capsys.readouterr()
        try:
            status = main(["archive", *words, "--data", str(self.data)])
        except SystemExit as end:  # wrong usage
            status = int(end.code or 0)
        printed = self.capsys.readouterr()
        lines = printed.err.strip().splitlines()
        # Below the usage stands the sentence, which calls a field as its option.
        refusal = (
            lines[-1].partition(": ")[2].replace("--", "")
            if status == 2
            else printed.err.removeprefix("ibi: ")
        )
        return Came("" if status == 0 else refusal.strip(), printed.out, printed.err)

    def uploaded(self, content: bytes) -> str:
        """Upload a file as programs do; its id."""
        begun = self.program("POST", "/uploads", tus_resumable="1.0.0", upload_length=str(len(content)))
        location = begun.headers["location"].removeprefix("/-/api")
        kind = "application/offset+octet-stream"
        came = self.program(
            "PATCH", location, content, tus_resumable="1.0.0", upload_offset="0", content_type=kind
        )
        assert came.status == 204, came.body
        return location.rpartition("/")[2]

    def _ended(self, job: dict[str, Any]) -> Came:
        deadline = time.monotonic() + 60
        while job["state"] == "running" and time.monotonic() < deadline:
            time.sleep(0.05)
            job = json.loads(self.program("GET", f"/jobs/{job['id']}").body)
        return Came(job.get("problem", ""), job.get("result"))


def wait_for_jobs(data: Path) -> None:
    """Wait until no job of an Archive is under way: of each operation there is one at a time."""
    jobs, deadline = Jobs(data, time.time, time.monotonic), time.monotonic() + 60
    while any(each.state == RUNNING for each in jobs.all()):
        assert time.monotonic() < deadline, "a job does not end"
        time.sleep(0.02)


def _value(info: Any, text: str) -> Any:
    """What a program would send for what a person types."""
    if info.is_truth:
        return {"yes": True, "no": False}.get(text, text)
    if info.is_number:
        return float(text) if re.fullmatch(r"-?[0-9.]+", text) else text
    return [text] if info.is_list else text


def problem_of(answer: Answer) -> str:
    """The sentence that a page has about what could not be done, with the name of a field for its label on the page."""
    found = re.search(r'id="problem"[^>]*>\s*<p>([^<]*)</p>', answer.text) if answer.status >= 400 else None
    sentence = unescape(found[1]) if found else ""
    labels = re.findall(r'<label for="([^"]+)">(.*?)</label>', answer.text, re.DOTALL)
    labels += re.findall(r'<fieldset id="([^" ]+)"[^>]*>\s*<legend>(.*?)</legend>', answer.text, re.DOTALL)
    for name, label in labels:
        plain = unescape(re.sub(r"\s*<.*", "", label, flags=re.DOTALL))
        sentence = sentence.replace(f"“{plain}”", name)
    return sentence


def _without_tags(answer: Answer) -> str:
    return (
        " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())
        if answer.body[:1] == b"<"
        else answer.text
    )
