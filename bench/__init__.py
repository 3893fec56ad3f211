"""Benchmarks: `python -m bench` prints every table."""
