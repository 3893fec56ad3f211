"""The caches of a resolver: answers, redirects, holder hints, holdings filters; may be lost, never be wrong.

Entry points: `answers` and `redirects`, which share an LMDB file (`store`); `hints`, in one of its own; `filters`.
"""
