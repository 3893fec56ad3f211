"""Signatures of a service (Ed25519, key in DIR/attestation.key), and canonical JSON, the form that is signed.

An Archive signs receipts, a resolver the list of its Archives. The file holds the 32 bytes of the private key
in hexadecimal; nodes that share a store have it as a document there. It is made when first needed, and is part of the
backups of an Archive. Receipts name the
public key, so they stay valid if the private key is lost.

Canonical JSON (RFC 8785, without fractions) has one spelling for a value, so that a signature over it can be checked
anywhere: no blanks; the names of an object in the order of their UTF-16 code units; characters as themselves in UTF-8,
but for the quotation mark, the backslash and control characters; whole numbers only, since nothing here needs others.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ibi.errors import BadItem, SetupError
from ibi.runtime.durable_files import flush_folder, setup_errors
from ibi.runtime.shared.documents import documents_of

if TYPE_CHECKING:
    from pathlib import Path


FILE: Final = "attestation.key"
KEY_TEXT: Final = re.compile(r"[0-9a-f]{64}")
"""A key as text."""

SIGNATURE_TEXT: Final = re.compile(r"[0-9a-f]{128}")
"""A signature as text."""


_PRIME: Final = (1 << 255) - 19
_OF_ORDER_8: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER: Final = frozenset({0, 1, _PRIME - 1, _OF_ORDER_8, _PRIME - _OF_ORDER_8})


class Signer:
    """Signs with the key of one data directory."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @property
    def public(self) -> str:
        """The public key: 64 hexadecimal digits."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature: 128 hexadecimal digits."""
        return self._private.sign(message).hex()


def signer(data: Path) -> Signer:
    """Return the signer of a data directory; make its key if there is none yet. Raises SetupError."""
    path, documents = data / FILE, documents_of(data)
    if documents is not None:
        return _signer(documents.read(FILE) or documents.make(FILE, _new_key()), path)
    with setup_errors("{path} cannot be used: {reason}", path=path):
        if not path.exists():
            _make(path)
        return _read(path)


def public_key(data: Path) -> str:
    """Return the public key of a data directory, "" before anything was signed there. Raises SetupError."""
    documents = documents_of(data)
    exists = (data / FILE).exists() if documents is None else documents.read(FILE) is not None
    return signer(data).public if exists else ""


def is_key(text: str) -> bool:
    """Whether a text is a public key under which only the holder of the private key can sign.

    Under the eight points of small order, any forger can. These have five values of y, which may be spelled
    in further ways: with another sign, or with the prime added (RFC 8032, 5.1.3).
    """
    if not KEY_TEXT.fullmatch(text):
        return False
    y = int.from_bytes(bytes.fromhex(text), "little") & ((1 << 255) - 1)
    return y % _PRIME not in _SMALL_ORDER


def is_signed(message: bytes, signature: str, public: str) -> bool:
    """Whether this is the signature of the message under a public key that `is_key` accepts; both as text."""
    if not (SIGNATURE_TEXT.fullmatch(signature) and is_key(public)):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _make(path: Path) -> None:
    """Make the key of a data directory, unless another process has just done so."""
    # Linked, not renamed: if two processes make a key at once, both use the one that got the name first.
    private = _new_key()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{private}\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
        flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _new_key() -> str:
    return Ed25519PrivateKey.generate().private_bytes_raw().hex()


def _read(path: Path) -> Signer:
    with path.open("rb") as file:
        return _signer(file.read(200).decode("ascii", "replace"), path)


def _signer(text: str, path: Path) -> Signer:
    text = text.strip()
    if not KEY_TEXT.fullmatch(text):
        raise SetupError("{path} holds no key for attestation: put it back from a backup", path=path)
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))


_LARGEST: Final = 1 << 53
"""Whole numbers from here on are not signed: programs in other languages round them, and would find another text."""


def canonical(value: Any) -> bytes:
    """Write a JSON value in its one spelling. Raises BadItem for fractions, huge numbers, half characters."""
    try:
        return json.dumps(_ordered(value), ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise BadItem("a text has half a character in it") from None


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return {name: _ordered(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in value]
    if value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < _LARGEST):
        return value
    raise BadItem("{value} has no canonical spelling", value=value)
