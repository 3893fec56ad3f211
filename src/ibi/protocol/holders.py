"""Where a resolver of ours tells which Archive it knows to hold an original (an extension; note 45)."""

from __future__ import annotations

from typing import Final

HOLDERS_PATH: Final = "/-/api/holders"
"""`?ibi=…`: names with blanks between; answers {"items": [{"ibi", "original", "address", "removed", "disputed"}]}."""

MOST_HOLDERS: Final = 50
"""Names in one request."""
