"""Write the pages of Archives and resolvers as HTML, and the metadata of items in formats for programs.

Nothing is looked up here, neither in a database nor over the network: page models have all values.

Entry points: `archive_pages.render`, `administration_pages.render`, the functions of `resolver_pages`,
`formats.FORMATS`, and `assets.WithAssets` for the files that pages fetch.
"""
