"""The resolver (floor 4): from a persistent URL to the place where the item is now (R15 sections 6 to 8 and 10).

`resolution` and `selection` decide without doing; `fanout` asks the Archives through `ibi.transport`; `registry` and
`membership` know who they are; `service` speaks HTTP with readers and Archives.
"""
