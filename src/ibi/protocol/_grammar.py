"""The grammars of the resolution standard, each rule above the regular expression that implements it.

All rules are ASCII only, and a text matches as a whole or not at all. Each departure from the printed tables
is marked with its number in docs/standard/coverage.md.
"""

from __future__ import annotations

import re

MAX_URL = 8192
"""Characters of the longest URL that is read or followed."""

MAX_PAIRS = 4096
"""Pairs of the longest list that is read."""

# Tables 8.1 and 9.1: language = 2 letters, country = 2 letters (any: AMB-44; any case on input: AMB-43).
language_match = re.compile(r"[A-Za-z]{2}(?:-[A-Za-z]{2})?").fullmatch

# Table 8.1 names one format, oai_dc; other names are read, because Archives may offer others (WILD-03).
format_match = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch

# Table 7.2: key = number ["-" number] ; number = 10*DIGIT
key_match = re.compile(r"[0-9]{10,}+(?:-[0-9]{10,}+)?").fullmatch

# Note 1, ours: how many readers an acknowledgment counts, and an id that is unique for its URL key.
count_match = re.compile(r"[1-9][0-9]{0,4}|100000").fullmatch
event_match = re.compile(r"[0-9]{0,40}").fullmatch

# The requests for changes, ours: position = number "." word ; word = 16 hexadecimal digits.
position_match = re.compile(r"(?:0|[1-9][0-9]{0,17})\.[0-9a-f]{16}").fullmatch
change_word_match = re.compile(r"[0-9a-f]{16}").fullmatch
seconds_match = re.compile(r"[0-9]{1,9}").fullmatch

# RFC 2396 3.2.2 hostport, with host as RFC 3986: a name, an IPv4 address or an IPv6 address in brackets; no user.
_NAME = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?"
)
hostport_match = re.compile(rf"({_NAME}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::([0-9]{{1,5}}))?").fullmatch

# An IPv4 address in the only spelling that is written (GEN-68: canonical IP addresses); ibi.identifier reads the
# other spellings.
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
ipv4_match = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}").fullmatch

# RFC 3986 authority as the mail address of an administrator: userinfo "@" host.
mail_match = re.compile(rf"[A-Za-z0-9._~!$&'*+=%-]{{1,64}}@{_NAME}").fullmatch

# RFC 3986 path-absolute, but with more characters allowed: all printable ASCII except blank, "?" and "#".
path_match = re.compile(r"/(?!/)[!-\"$->@-~]*+").fullmatch

# Table 6.2:
#
#   pair-list = pair *(space pair)          pair  = name 1*SP value
#   value     = word | "{" list "}"         list  = word 1*(SP word)
#   space     = SP | CRLF                   word  = 1*char ; char = %x21-7A | %x7C | %x7E
#
# More is read than this: any run of blanks between pairs, "{}" and "{word}" (MSG-14: forgiving reading; AMB-25: an
# empty list; AMB-26: braces).
_PAIR_WORD = r"[!-z|~]++"
_PAIR = re.compile(
    rf"[ \t\r\n]*+({_PAIR_WORD})[ \t\r\n]++(?:({_PAIR_WORD})|\{{([!-z|~ \t\r\n]*+)\}})(?=[ \t\r\n]|\Z)",
    re.ASCII,
)
next_pair, every_pair = _PAIR.match, _PAIR.findall
pair_list_match = re.compile(
    rf"(?:[ \t\r\n]*+{_PAIR_WORD}[ \t\r\n]++(?:{_PAIR_WORD}|\{{[!-z|~ \t\r\n]*+\}})(?=[ \t\r\n]|\Z))"
    rf"{{0,{MAX_PAIRS}}}+[ \t\r\n]*+",
    re.ASCII,
).fullmatch
pair_word_match = re.compile(_PAIR_WORD, re.ASCII).fullmatch
pair_words_match = re.compile(rf"{_PAIR_WORD}(?: {_PAIR_WORD})*+", re.ASCII).fullmatch
