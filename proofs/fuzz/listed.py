"""All parsers that are fuzzed, and the few that are not, each with its reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from proofs.fuzz.of_archives import ITEMS
from proofs.fuzz.of_machines import KEPT
from proofs.fuzz.of_neighbours import TALK
from proofs.fuzz.of_queries import QUERIES
from proofs.fuzz.of_resolvers import RESOLVER_MESSAGES
from proofs.fuzz.standard import MESSAGES, NAMES

TARGETS: Final = {
    each.name: each for each in (*NAMES, *MESSAGES, *ITEMS, *QUERIES, *TALK, *RESOLVER_MESSAGES, *KEPT)
}
"""By name."""

EXCEPTIONS: Final = {
    "archive.api.received_files.read_file": "takes whatever bytes come for the content of a file",
    "archive.store.file_store.FileStore.read_sidecar": "the bytes of a file",
    "archive.store.files.FolderFiles.read_sidecar": "the bytes of a file",
    "archive.store.s3_files.S3Files.read_sidecar": "the bytes of an object",
    "archive.store.s3_client.S3Client.read": "the bytes of an object",
    "archive.store.postgresql.item_reader.ItemReader.read": "rows of our own database",
    "archive.store.postgresql.upload_rows.LockedUpload.read": "a row of our own database",
    "archive.service.later.LaterAnswers.read_more": "canonical names that other functions have read",
    "app.resolver_nodes.NodeTasks.read_evidence": "rows of our own database",
    "app.resolver_nodes.read_position": "a number in a file of our own, which may be lost",
    "runtime.database.postgresql.read_url": "sqlalchemy.make_url reads it; its tests give wrong ones",
    "runtime.shared.documents.Documents.read": "a row of our own database",
    "runtime.shared.replies.SharedReply.read": "a row of our own database",
    "archive.search.indexing.read_dating": "two numbers in a file of our own; its tests damage it",
    "archive.search.index_writer.IndexState.read": "a row of our own database",
    "archive.membership.joining.Resolvers.read": "runtime.settings.toml_file.Settings.read, which is fuzzed",
    "archive.membership.membership.MembershipStore.read": "rows of our own database",
    "archive.store.tables.rows.read_item_row": "rows of our own database",
    "http.proxy_faults.UndeclaredProxies.read": "a few words in a file of our own, which may be lost",
    "http.request.read_body": "the bytes of a body; what they hold is read by parsers that are fuzzed",
    "http.server.head.read_absolute_form": "takes any target; P-F2 sends such ones to the real protocol",
    "runtime.strict_json.read_strict_json": "api.bodies.read_json, which is fuzzed, calls it and nothing else",
    "minting.order.read_body": "the bytes of a body; LabelOrder.read, which is fuzzed, reads what they hold",
    "runtime.settings.institution.read_picture": "a text that an administrator gives; its tests try each kind of fault",
    "resolver.evidence.reading.OriginalsAlerts.read": "lines of our own log; chain.read_line is fuzzed",
    "resolver.evidence.reading.read_slice": "lines of our own log; chain.read_line is fuzzed",
    "resolver.model.suggestion.parse_request": "protocol.persistent_url.PersistentURL.from_text, which is fuzzed",
    "resolver.resolve.answer_reader.AnswerReader.read": "protocol.url_list.UrlList.read, in small steps",
    "resolver.cache.rows.read_answer": "a row with its checksum, of our own file",
    "accounts.forms.read_expired_form": "a form over HTTP, which requests are tried with (P-F2)",
    "accounts.forms.read_small_files": "a form over HTTP, which requests are tried with (P-F2)",
    "archive.admin.item_lists.ItemQuery.read": "decoded words of a query; unknown values are no conditions",
    "accounts.forms.read_fields": "a form over HTTP, which requests are tried with (P-F2)",
    "http.client.download.Download.read": "the bytes of a body",
    "archive.ingest.sources.records.TextLines.read": "a position in a file",
}
"""Functions that are called as parsers are, and why they are in no list."""

_SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "ibi"
_PARSER: Final = re.compile(r"(?:parse|read)(?:_\w+)?|from_[a-z]+|unwrap")


def parsers() -> set[str]:
    """All public functions of ours that are called as parsers are, dotted below `ibi`; the command line has none."""
    found = set()
    for path in sorted(_SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if not module.startswith("cli"):
            found |= {f"{module}.{name}" for name in _functions(ast.parse(path.read_text(encoding="utf-8")))}
    return found


def fuzzed() -> set[str]:
    """All functions that are in a list."""
    return {name for each in TARGETS.values() for name in (each.name.partition(" ")[0], *each.also)}


def _functions(tree: ast.Module) -> list[str]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _PARSER.fullmatch(node.name):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += [
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and _PARSER.fullmatch(each.name)
            ]
    return found
