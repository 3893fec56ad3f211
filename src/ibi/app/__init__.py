"""Assembly: services are put together from settings and packages that do not know each other; and the doctor.

It decides nothing that a reader or a peer sees: that stands in the packages below. Each module is imported where it is
used, since a resolver need not load an Archive, nor a mint either of them.

Entry points: `archive.archive_service`, `resolver.resolver_service` and `mint.mint_service` make what a server runs;
`archive.check_archive` and `resolver.check_resolver` find faults before any process is started;
`doctor.doctor.Checkup` looks at a data directory.
"""
