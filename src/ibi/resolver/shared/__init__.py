"""The tables that several nodes of a resolver share in PostgreSQL: the registry, wrong keys, the evidence.

Each part has its statements in its own package; here the tables are made.
"""
