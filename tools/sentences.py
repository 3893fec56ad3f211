"""Every sentence that a person may be shown, extracted from the source by Babel: errors, pages, command line.

    python tools/sentences.py               brings every catalogue up to date, and compiles it
    python tools/sentences.py es            begins a catalogue

A new sentence stands there untranslated, until a person has translated it; one that is said no more goes.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

import ibi
from ibi import errors

SOURCE = Path(ibi.__file__).parent
LOCALE = SOURCE / "runtime" / "locale"

ERRORS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.IbiError)
}
SAYERS = {"say", "tell", "remark", "_", "setup_errors"}
OPERATIONS = {
    "Operation": 1,
    "OperationGroup": 0,
    "FieldGroup": 0,
    "field": 0,
    "number_field": 0,
    "ItemField": 5,
    "free_field": 0,
    "Look": 0,
}
"""What operations, their groups, their fields, those of items and looks of alerts are made by, and which argument is a
sentence."""
HELPS: Final = {
    "argument": (2,),
    "flag": (2,),
    "data_option": (1,),
    "CommandGroup": (2,),
    "add": (1, 3),
    "add_group": (1,),
    "add_operation": (3,),
    "add_word": (1,),
    "list_under": (0,),
    "add_accounts": (2,),
    "add_token_words": (2,),
}
"""Which arguments of calls in `ibi.cli` are texts of help; besides those named `help`, `description`, `epilog`."""
FINDINGS = {"ok", "warning", "fault", "not_proven"}
"""What makes a finding of the doctor: of its name, a sentence or an error, and a remedy."""

PASSED_ON = frozenset(
    "api/dispatch.py api/institution_pages.py "
    "api/jobs.py api/operation_pages.py api/routes.py archive/operations/peers.py cli/operations.py "
    "resolver/operations/registrations.py app/doctor/__init__.py app/doctor/doctor.py app/doctor/machine.py "
    "app/doctor/shared_store.py archive/store/files.py archive/store/s3_check.py archive/store/s3_files.py "
    "app/doctor/stores.py archive/preservation/audit.py "
    "archive/preservation/check.py "
    "archive/preservation/status.py "
    "archive/operations/items.py archive/operations/preservation.py "
    "archive/pages/responses.py archive/store/tables/rows.py cli/__init__.py "
    "cli/archive/serve.py cli/asking.py cli/setup/__init__.py "
    "cli/archive/export.py cli/archive/founding.py cli/archive/importing.py cli/archive/items.py "
    "cli/archive/membership.py cli/archive/preservation.py cli/doctor.py "
    "cli/inspect.py cli/mint/__init__.py cli/mint/recover.py cli/parser.py cli/resolver/__init__.py "
    "cli/resolver/settings.py cli/up.py errors.py identifier/unwrapping.py minting/recovery.py "
    "minting/moving.py minting/service.py minting/state.py minting/state_row.py resolver/members/mail.py "
    "resolver/members/status.py resolver/model/alert.py resolver/model/suggestion.py "
    "resolver/model/statements.py resolver/pages/explanation.py resolver/pages/programs.py "
    "resolver/pages/administration.py resolver/pages/registration.py resolver/resolve/answer_reader.py "
    "runtime/durable_files.py runtime/i18n.py runtime/settings/__init__.py runtime/settings/toml_file.py "
    "web/archive_pages.py web/item_values.py web/listed_items.py "
    "web/rendering.py web/resolver_pages.py".split()
)
"""Modules that pass on the sentences of other modules."""


KEYWORDS: Final[dict[str, Any]] = {"_": None, "_n": (2, 3), "say_count": (2, 3)}
"""Functions of templates and modules, and which of their arguments are sentences."""


def of_python(
    file: BinaryIO,
    _keywords: Any,
    _comment_tags: Any,
    options: Any,  # noqa: ARG001 - as Babel calls it
) -> Iterator[tuple[int, str | None, Any, list[str]]]:
    """Yield the sentences of a module, as Babel wants them of an extraction method."""
    path = Path(file.name)
    module = _Module(file.read().decode("utf-8"), shown=path.parent.name in {"web", "administration"})
    helps = module.helps() if "cli" in path.relative_to(SOURCE).parts else ()
    for sentence, line in (*module.sentences(), *helps):
        yield line, None, sentence, []
    for node in module.nodes:
        if isinstance(node, ast.Call) and _called(node) == "say_count":
            yield node.lineno, "say_count", (None, *map(_text, node.args[1:3])), []


METHODS: Final = [("**.py", of_python), ("web/templates/**.html", babel_extract)]
_UNKNOWN: Final = re.compile(
    rb'^"(POT-Creation-Date|PO-Revision-Date|Last-Translator|Language-Team|Report-Msgid-Bugs-To|Generated-By).*\n',
    re.MULTILINE,
)
OPTIONS: Final = {"web/templates/**.html": {"encoding": "utf-8", "trimmed": "true"}}


def template() -> Catalog:
    """Extract the sentences of the source; with the files in which each is said."""
    found = Catalog(project="ibi", charset="utf-8")
    for path, message in _extracted():
        found.add(message, locations=[(path, 0)])
    return found


@cache
def _extracted() -> list[tuple[str, Any]]:
    """The file and the sentence of each place, read once: the source stays as it is while a program of ours runs."""
    extracted = extract_from_dir(SOURCE, METHODS, OPTIONS, KEYWORDS)  # type: ignore[arg-type]  # a method may be callable
    return [
        (path, message) for path, _, message, _, _ in sorted(extracted, key=lambda each: (each[0], each[1]))
    ]


def catalogues() -> Iterator[tuple[Path, Catalog]]:
    """Yield the file of every catalogue, and what is in it."""
    for path in sorted(LOCALE.glob("*/LC_MESSAGES/ibi.po")):
        with path.open("rb") as file:
            yield path, read_po(file, locale=path.parts[-3])


def write(path: Path, catalogue: Catalog) -> None:
    """Bring a catalogue up to date with the source, and write it, and what is made of it."""
    catalogue.update(template(), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.header_comment = (
        "# The English sentence is the key; places in braces keep their names (`make messages`)."
    )
    # History has the dates and the people; here they would make each run a change.
    catalogue.creation_date = catalogue.revision_date = datetime.fromtimestamp(0, UTC)
    written = io.BytesIO()
    write_po(written, catalogue, width=0, no_location=True, sort_output=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_UNKNOWN.sub(b"", written.getvalue()))
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalogue)


def unresolved() -> list[str]:
    """Places where an error is made of a sentence that this module cannot find."""
    places = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = _Module(path.read_text(encoding="utf-8"), shown=False)
        list(module.sentences())
        places += [f"{path.relative_to(SOURCE)}:{line}" for line in module.lost]
    return places


class _Module:
    """One module: where sentences enter calls, followed back through names, branches and parameters."""

    def __init__(self, source: str, *, shown: bool) -> None:
        self.tree = tree = ast.parse(source)
        self.nodes = list(ast.walk(tree))  # which are gone through again for each name
        self.shown = shown  # whatever stands in a table of a module that makes pages is shown
        self.lost: list[int] = []
        self.functions = {
            n.name: n for n in self.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        }

    def sentences(self) -> Iterator[tuple[str, int]]:
        """Yield each sentence of one form, and its line."""
        yield from self._tables()
        for node in self.nodes:
            if isinstance(node, ast.Call):
                for argument in _messages(node):
                    texts = self._texts(argument, set())
                    if not texts:
                        self.lost.append(node.lineno)
                    yield from ((text, node.lineno) for text in texts)

    def helps(self) -> Iterator[tuple[str, int]]:
        """Yield each text of a command's help, and its line."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                name = _called(node)
                given = [node.args[at] for at in HELPS.get(name, ()) if at < len(node.args)]
                given += [k.value for k in node.keywords if k.arg in {"help", "description", "epilog"}]
                yield from ((text, node.lineno) for each in given for text in self._texts(each, set()))

    def _tables(self) -> Iterator[tuple[str, int]]:
        """Sentences in tables of a module: {Kind.NOT_FOUND: "…"}, {404: "…"}, ((rule, "…"), …), FIRST = "It was …"."""
        for node in self.tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Tuple):
                rows = [row for row in value.elts if isinstance(row, ast.Tuple)]
                cells = [(_text(cell), cell.lineno) for row in rows for cell in row.elts]
                yield from ((text, line) for text, line in cells if text is not None and text.count(" ") > 1)
                inner = [
                    cell for row in rows for cell in row.elts if self.shown and isinstance(cell, ast.Dict)
                ]
                words = [(_text(cell), cell.lineno) for table in inner for cell in table.values]
                yield from ((text, line) for text, line in words if text is not None)
            elif isinstance(value, ast.Dict):
                texts = [(_text(cell), cell.lineno) for cell in value.values]
                found = [(text, line) for text, line in texts if text is not None]
                if len(found) == len(texts) and (self.shown or any(" " in text for text, _ in found)):
                    yield from found
            elif value is not None and (text := _text(value)) is not None and _is_sentence(text):
                yield text, node.lineno

    def _texts(self, node: ast.expr, seen: set[str]) -> list[str]:
        if (text := _text(node)) is not None:
            return [text]
        if isinstance(node, ast.IfExp):
            return self._texts(node.body, seen) + self._texts(node.orelse, seen)
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self._texts(value, seen)]
        if isinstance(node, ast.Name) and node.id not in seen:
            return self._of_name(node.id, seen | {node.id})
        if isinstance(node, ast.Call):
            node = node.func
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in self.functions and name not in seen:
            returns = [
                n.value for n in ast.walk(self.functions[name]) if isinstance(n, ast.Return) and n.value
            ]
            return [text for value in returns for text in self._texts(value, seen | {name})]
        return []

    def _of_name(self, name: str, seen: set[str]) -> list[str]:
        found: list[str] = []
        for node in self.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found += self._texts(value, seen)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    found += self._texts(value, seen)
                case ast.Call(func=ast.Name(id=function)) | ast.Call(func=ast.Attribute(attr=function)):
                    found += self._of_call(node, function, name, seen)
                case ast.For(target=ast.Tuple(elts=targets), iter=ast.Tuple() as rows) if name in map(
                    _name, targets
                ):
                    texts = (_text(cell) for cell in ast.walk(rows))
                    found += [text for text in texts if text is not None and " " in text]
        return found

    def _of_call(self, call: ast.Call, function: str, name: str, seen: set[str]) -> list[str]:
        """What a call hands to the parameter `name` of a function of this module."""
        defined = self.functions.get(function)
        if defined is None:
            return []
        parameters = [
            a.arg for a in (*defined.args.posonlyargs, *defined.args.args) if a.arg not in {"self", "cls"}
        ]
        if name in parameters and parameters.index(name) < len(call.args):
            return self._texts(call.args[parameters.index(name)], seen)
        return [t for k in call.keywords if k.arg == name for t in self._texts(k.value, seen)]


def _called(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _is_sentence(text: str) -> bool:
    return text.count(" ") > 1 and text[0].isupper() and text.endswith(".")


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _text(node: ast.AST) -> str | None:
    """The text that a constant is; None for everything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _messages(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that are sentences for people."""
    name = _called(call)
    if name in FINDINGS and isinstance(call.func, ast.Name):
        return call.args[1:]
    if name in OPERATIONS and len(call.args) > OPERATIONS[name]:
        label = call.args[6:7] if name == "ItemField" else []
        return [call.args[OPERATIONS[name]], *label, *(k.value for k in call.keywords if k.arg == "warning")]
    if name not in ERRORS and not (name in SAYERS and isinstance(call.func, ast.Name)):
        return []
    position = 2 if name in {"ParseError", "TextTooLong"} else 0
    if len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args):
        return [call.args[position]]
    return [k.value for k in call.keywords if k.arg == "problem"][:1]


if __name__ == "__main__":
    for language in sys.argv[1:]:
        new = Catalog(locale=language, project="ibi", charset="utf-8")
        write(LOCALE / str(new.locale) / "LC_MESSAGES" / "ibi.po", new)
    for written, kept in list(catalogues()):
        write(written, kept)
