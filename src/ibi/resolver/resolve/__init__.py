"""Resolution: a pure state machine that decides, and the code that queries Archives for it (R15 chapter 8).

Entry points: `resolution.Resolution` (pure), `resolver` (the rounds), `queries` (one query to one Archive), `policy`.
"""
