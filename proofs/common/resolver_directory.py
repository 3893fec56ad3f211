"""The data directory of a resolver with the Archives of `numbered`.

The registry with so many included Archives is made once for each number of them and then copied: what makes a key hard
to guess makes it slow to register.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ibi.app.resolver import open_registry
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.runtime.settings import ResolverSettings
from proofs.common import numbered


def directory(folder: Path, archives: int, *, included: bool = True, **settings: Any) -> Path:
    """A data directory of a resolver with so many Archives."""
    shutil.copytree(Path(_model(archives, included=included).name), folder)
    given: dict[str, Any] = {"address": numbered.ADDRESS, "service": IBIForms.of(parse_ibi(numbered.SERVICE))}
    ResolverSettings(**(given | {"allow_private_archives": True} | settings)).write(folder)
    return folder


@cache
def _model(archives: int, *, included: bool) -> tempfile.TemporaryDirectory[str]:
    model = tempfile.TemporaryDirectory()
    registry = open_registry(Path(model.name), new=True)
    for number in range(1, archives + 1):
        ibi = parse_ibi(numbered.service(number))
        registry.register(ibi, numbered.KEY, [numbered.host(number)])
        if included:
            mail = f"admin@{numbered.host(number)}"
            request = InclusionRequest(numbered.host(number), ibi, "127.0.0.1", "1", mail, numbered.KEY)
            registry.include(request, registry.open_change(ibi), confirmed=True)
    registry.close()
    return model
