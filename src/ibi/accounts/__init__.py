"""Accounts of people, their roles and sessions, and the administration pages of a service; tokens of programs.

It knows nothing of items and their readers. Of passwords and tokens it stores only hashes.

Entry points: `sign_in.Authentication`, `administration.Administration`, `people.AccountManager`, `tokens.Tokens`.
"""
