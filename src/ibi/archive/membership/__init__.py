"""Creates an Archive, joins resolvers, keeps it included, and notifies them of changes (R15 chapter 7).

It never speaks for an Archive that is switched off, except to ask for its exclusion.

Entry points: `founding.create_archive`, `joining.Resolvers`, `membership.Memberships`, `notices.NoticeSender`.
"""
