"""The Archive: it stores items, answers messages about them, and shows them to readers (R15 chapter 9).

It never imports the resolver: the two meet over HTTP alone.

Entry points: `store.data_directory.DataDirectory`, `service.service.ArchiveService`, `model.item.Holding`.
"""
