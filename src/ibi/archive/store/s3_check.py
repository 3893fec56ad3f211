"""Whether the place of an Archive's files can be used, found out by a process of its own.

The client of S3 has threads, which a process must not have that starts workers by forking.

    python -m ibi.archive.store.s3_check PLACE SERVICE     prints {} or {"silent": …, "problem": …, "details": {…}}
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from ibi.archive.store.s3_client import S3Client
from ibi.errors import SetupError, StoreSilent

if TYPE_CHECKING:
    from ibi.runtime.settings import ArchiveSettings


def check_place(settings: ArchiveSettings) -> SetupError | None:
    """Check the place of the files; return why it does not answer now, None if all is well.

    Raises SetupError for a place that will not become right by itself: a missing bucket or marker, refused keys.
    """
    command = [sys.executable, "-m", __name__, settings.files, str(settings.service.main)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - this module
    found = json.loads(ended.stdout)
    if not found:
        return None
    error = SetupError(found["problem"], **found["details"])
    if found["silent"]:
        return error
    raise error


def _main(place: str, service: str) -> None:
    found: dict[str, object] = {}
    try:
        S3Client(place).check(service)
    except SetupError as error:
        details = {name: str(value) for name, value in error.details.items()}
        found = {"silent": isinstance(error, StoreSilent), "problem": error.problem, "details": details}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
