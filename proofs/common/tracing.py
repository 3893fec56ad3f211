"""Whether system calls can be traced here, and made to fail."""

from __future__ import annotations

import os
import shutil
import subprocess

from proofs.common.report import Report


def why_not() -> str | None:
    """Why no process can be traced here; None if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], check=False, capture_output=True)
    return None if tried.returncode == 0 else "strace may not trace here"


def can_trace(report: Report) -> bool:
    """Whether a proof by traced calls can run; if not, its report says why."""
    missing = why_not()
    if missing:
        report.unshown.append(missing)
    return missing is None
