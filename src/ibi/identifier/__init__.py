"""What a name is and how it is made: the generation standard, pure.

It never reads a clock, waits or stores anything: a date is an integer that the caller gives and keeps.

Entry points: `forms.parse_name`, `unwrapping.unwrap`, `distributor.distribute`, `generator.LabelGenerator`.
"""
