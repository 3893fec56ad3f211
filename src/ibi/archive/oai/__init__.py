"""OAI-PMH 2.0: give the items of this Archive to harvesters as records, by the six verbs of the protocol.

Errors in the arguments of a request are reported as XML with status 200 (chapter 3.6 of the protocol).

Entry points: `provider.OaiHandler`, `provider.OaiProvider`.
"""
