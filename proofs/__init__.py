"""Proofs: commands that try to break what must never break, and print what they saw. Each is run by hand or at night.

They judge from outside: what is right is worked out anew from the standard, never taken from the code under trial.
"""
