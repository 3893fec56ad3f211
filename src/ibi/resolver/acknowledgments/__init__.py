"""Queues, sends and counts acknowledgments to the Archives whose URLs were chosen.

Entry points: `queue.AcknowledgmentQueue` sends them, one for each reader or one for many readers of a cached answer;
`counter.ReaderCounter` counts readers before, where they are too many for the queue. See RES-11:
acknowledgments; RES-12: redirect at once.
"""
