"""The key with which a service signs what it attests: Ed25519, in DIR/attestation.key, its owner's alone (floor 3).

An Archive signs receipts, a resolver the list of its Archives. The file holds the 32 bytes of the private key in
hexadecimal. It is made when it is first needed, and goes with an Archive into its backups: receipts name the public
key, so a lost private key loses no receipt.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ibi.durable import flush_folder
from ibi.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "attestation.key"
KEY_TEXT: Final = re.compile(r"[0-9a-f]{64}")
"""A key as text."""

SIGNATURE_TEXT: Final = re.compile(r"[0-9a-f]{128}")
"""A signature as text."""


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
    """The signer of a data directory; its key is made here if there is none yet. Raises SetupError."""
    path = data / FILE
    try:
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise SetupError("{path} cannot be used: {reason}", path=path, reason=error.strerror) from None


def public_key(data: Path) -> str:
    """The public key of a data directory, "" while nothing was attested there. Raises SetupError for a damaged one."""
    return signer(data).public if (data / FILE).exists() else ""


def is_signed(message: bytes, signature: str, public: str) -> bool:
    """Whether the signature is that of this message under this public key; both as text."""
    if not (SIGNATURE_TEXT.fullmatch(signature) and KEY_TEXT.fullmatch(public)):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _make(path: Path) -> None:
    """Two that make it at once end with the same key: the first name stays."""
    private = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{private}\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(aside)
        flush_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _read(path: Path) -> Signer:
    with path.open("rb") as file:
        text = file.read(200).decode("ascii", "replace").strip()
    if not KEY_TEXT.fullmatch(text):
        raise SetupError("{path} holds no key for attestation: put it back from a backup", path=path)
    return Signer(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)))
