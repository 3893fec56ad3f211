"""The generation standard as pure functions and values: reading names and making them.

Nothing here reads a clock, waits or stores anything: a date is an integer that the caller passes in and
stores.

Entry points: `forms.parse_name`, `unwrapping.unwrap`, `distributor.distribute`, `generator.LabelGenerator`.
"""
