"""The generation standard as pure functions and values: reading names and making them.

No code here reads a clock, waits or stores anything: callers pass in dates, as integers, and store them.

Entry points: `forms.parse_name`, `unwrapping.unwrap`, `distributor.distribute`, `generator.LabelGenerator`.
"""
