"""OAI-PMH 2.0: give the items of this Archive to harvesters as records, by the six verbs of the protocol.

An error in the arguments of a request is reported as XML with status 200, as chapter 3.6 of the protocol
requires.

Entry points: `provider.OaiHandler`, `provider.OaiProvider`.
"""
