"""OAI-PMH 2.0: the items of this Archive as records, for harvesters; six verbs.

Whatever is wrong with a request of the protocol is reported as XML with status 200, as its chapter 3.6 wants it.

Entry points: `provider.OaiHandler`, `provider.OaiProvider`.
"""
