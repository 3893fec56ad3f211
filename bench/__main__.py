"""Print every ratio: `python -m bench`."""

from __future__ import annotations

from bench import minting, minting_http, pure

pure.main()
minting.main()
minting_http.main()
