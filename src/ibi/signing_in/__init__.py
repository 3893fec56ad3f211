"""Signing in: accounts of people, their roles and their sessions, for the pages of whichever service has any."""
