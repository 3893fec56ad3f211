"""What every running service needs: settings, database, durable files, logs, generation counters, languages.

It never opens a socket and knows neither Archive nor resolver.

Entry points: `settings.ArchiveSettings` and its like, `database.open_engine`, `durable_files.replace_file`, `i18n.say`.
"""
