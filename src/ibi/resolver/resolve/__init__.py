"""Resolution: the pure machine that decides, and the driver that asks Archives and hears them (R15 chapter 8).

Entry points: `resolution.Resolution` (pure), `resolver` (the rounds), `queries` (one query to one Archive), `policy`.
"""
