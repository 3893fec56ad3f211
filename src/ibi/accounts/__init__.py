"""Accounts of people, their roles and sessions, and the administration pages of a service; tokens of programs.

It never decides what an item is or who may read it, and keeps neither a password nor a token, only their hashes.

Entry points: `sign_in.Authentication`, `administration.Administration`, `people.AccountManager`, `tokens.Tokens`.
"""
