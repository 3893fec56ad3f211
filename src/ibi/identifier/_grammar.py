r"""The grammars of the generation standard, each rule above the regular expression that implements it.

Letters and digits are ASCII only (`[0-9]`, never `\d`), and a text matches as a whole or not at all. Each
departure from the printed tables is marked with its number in docs/standard/coverage.md.
"""

from __future__ import annotations

import re

MAX_LABEL = 512
"""Characters of the longest label that is read (a host name has at most 253)."""

# Table 6.1, as the Portuguese documents print it (AMB-02: the port is optional):
#
#   repository = prefix "/" suffix
#   prefix     = subdomain "/" word [("." | "@") port]
#   subdomain  = *(word ".") last-word ["."]
#   word       = ALPHANUM | (ALPHANUM *(ALPHANUM | "-") ALPHANUM)
#   last-word  = ALPHA    | (ALPHA    *(ALPHANUM | "-") ALPHANUM)
#   port       = 1*DIGIT
#   suffix     = year "/" month "." day "." hour "." minute ["." second]
#   year       = 4*DIGIT ; month, day, hour, minute = 2DIGIT
#   second     = 2DIGIT ["." 1*DIGIT]
#
# "++" is possessive, so that matching takes linear time. The lookbehind refuses a hyphen at a word's end.
_WORD = r"(?!-)[A-Za-z0-9-]++(?<!-)"
_LAST_WORD = r"(?![0-9-])[A-Za-z0-9-]++(?<!-)"
SUBDOMAIN_RULE = rf"(?:{_WORD}\.)*{_LAST_WORD}\.?"
NAME_RULE = rf"{_WORD}(?:[.@][0-9]++)?"
YEAR_RULE = r"[0-9]{4,}+"
REST_RULE = r"[0-9]{2}\.[0-9]{2}\.[0-9]{2}\.[0-9]{2}(?:\.[0-9]{2}(?:\.[0-9]+)?)?"
REPOSITORY_RULE = rf"{SUBDOMAIN_RULE}/{NAME_RULE}/{YEAR_RULE}/{REST_RULE}"

# Table 7.1 is loose: any letters but I, O, V, Y, Z and any digits but 0, 1, on both sides of a "/". This rule follows
# Algorithms 5 to 7 (GEN-63: the narrow grammar; AMB-11: the strict grammar): one W or X between IP and port, a W
# before a fraction.
#
#   ibip = b27+ ("W" | "X") b27* "/" b27+ ["W" b27+]
_B27 = r"[2-9A-HJ-NP-Ua-hj-np-u]"
IBIP_RULE = rf"{_B27}+[WXwx]{_B27}*/{_B27}+(?:[Ww]{_B27}+)?"

repository_match = re.compile(REPOSITORY_RULE, re.ASCII).fullmatch
ibip_match = re.compile(IBIP_RULE, re.ASCII).fullmatch
subdomain_match = re.compile(SUBDOMAIN_RULE, re.ASCII).fullmatch
name_match = re.compile(NAME_RULE, re.ASCII).fullmatch
word_match = re.compile(_WORD, re.ASCII).fullmatch

EXCLUDED_LETTERS = frozenset("01IOVYZiovyz")
"""Characters that no IBIp has: look-alikes, and two reserved for a future system (GEN-61: letters that look alike)."""
