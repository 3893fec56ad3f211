"""The caches of a resolver: answers, redirects, holder hints, holdings filters; all may be lost (README.md).

Entry points: `answers` and `redirects`, which share an LMDB file (`store`); `hints`, in one of its own; `filters`.
"""
