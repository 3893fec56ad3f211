"""Pages and formats of both programs: page models of the Archive and the resolver, written as HTML or for programs.

Nothing is looked up here, neither in a database nor over the network: a page gets all it shows.

Entry points: `archive_pages.render`, `administration_pages.render`, the functions of `resolver_pages`,
`formats.FORMATS`, and `assets.WithAssets` for what pages fetch.
"""
