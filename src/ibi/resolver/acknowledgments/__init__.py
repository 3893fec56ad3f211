"""Queues, sends and counts acknowledgments to the Archives whose URLs were chosen (RES-11, RES-12).

Entry points: `queue` (one acknowledgment, or a batch of them, to an Archive), `counter` (many readers of one redirect).
"""
