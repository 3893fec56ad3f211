"""Assembly: makes services from settings, out of packages that do not know each other; and the doctor.

The packages below decide everything that a reader or a peer sees. Each module is imported only where it is
used, so that a resolver need not load an Archive, nor a mint either of them.

Entry points: `archive.archive_service`, `resolver.resolver_service` and `mint.mint_service` make what a server runs;
`archive.check_archive` and `resolver.check_resolver` find faults before any process is started;
`doctor.doctor.Checkup` examines a data directory.
"""
