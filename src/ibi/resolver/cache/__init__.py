"""What a resolver may lose and must never get wrong: cached answers, redirects, holder hints and holdings filters.

Entry points: `answers` and `redirects`, which share an LMDB file (`store`); `hints`, in one of its own; `filters`.
"""
