"""Print every ratio: `python -m bench`."""

from __future__ import annotations

from bench import pure

pure.main()
