"""The grammars of the two standards as ABNF, for the oracles: GEN-10, GEN-60, GEN-63, MSG-11, MSG-21, SVC-06, URL-01.

`/` stands for the documents' `|`. Where a requirement corrects a print (AMB-02, AMB-11, AMB-36), the corrected rule
stands here. A range that a document writes with gaps is written as the ranges it means.
"""

from __future__ import annotations

from support.oracles.bnf import Grammar

_REPOSITORY = """
repository = prefix "/" suffix
prefix = subdomain "/" word [("." / "@") port]
subdomain = *(word ".") last-word ["."]
word = ALPHANUM / (ALPHANUM *(ALPHANUM / "-") ALPHANUM)
last-word = ALPHA / (ALPHA *(ALPHANUM / "-") ALPHANUM)
ALPHANUM = ALPHA / DIGIT
port = 1*DIGIT
suffix = year "/" month "." day "." hour "." minute ["." second]
year = 4*DIGIT
month = 2DIGIT
day = 2DIGIT
hour = 2DIGIT
minute = 2DIGIT
second = integer ["." fraction]
integer = 2DIGIT
fraction = 1*DIGIT
"""

_IBIP = """
loose-ibip = loose-word "/" loose-word
loose-word = 1*loose-char
loose-char = %x61-68 / %x6A-6E / %x70-75 / "w" / "x" / %x41-48 / %x4A-4E / %x50-55 / %x32-39
ibip = 1*b27 ("W" / "X") *b27 "/" 1*b27 ["W" 1*b27]
b27 = %x32-39 / %x41-48 / %x4A-4E / %x50-55 / %x61-68 / %x6A-6E / %x70-75
"""

_RELATION = """
relation = (([ru [rt]] / [rt [ru]]) [rm [rt]])
ru = %s".lastedition"
rt = %s".translation" ["(" language ["-" country] ")"]
rm = %s".metadata" ["(" format ")"]
mdf = (([u [t]] / [t [u]]) [m [t]])
u = "!"
t = "+" ["(" language ["-" country] ")"]
m = ":" ["(" format ")"]
language = 2%x61-7A
country = 2%x41-5A
format = %s"oai_dc"
verb-list = [verb *("+" verb)]
verb = %s"GetTranslation" ["(" language ["-" country] ")"] / %s"GetLastEdition"
  / %s"GetMetadata" ["(" format ")"] / %s"GetFileList"
"""

_URL = """
persistent-url = "http://urlib.net/" ibi mdf [path-absolute] ["?" query]
ibi = repository / ibip
path-absolute = "/" [segment-nz *("/" segment)]
segment-nz = 1*pchar
segment = *pchar
pchar = ALPHA / DIGIT / "-" / "." / "_" / "~" / pct / %x21 / %x24 / %x26-2C / ";" / "=" / ":" / "@"
pct = "%" HEX HEX
HEX = DIGIT / "A" / "B" / "C" / "D" / "E" / "F"
query = pair *("&" pair)
pair = name "=" value
name = 1*qchar
value = *qchar
qchar = %x21-25 / %x27-3C / %x3E-7E
"""

_PAIR_LIST = """
pair-list = pair *(space pair)
pair = name 1*SP value
name = word
value = word / ("{" list "}")
list = word 1*(SP word)
space = SP / CRLF
word = 1*char
char = %x21-7A / %x7C / %x7E
key = number ["-" number]
number = 10*DIGIT
"""

LABELS = Grammar(_REPOSITORY + _IBIP)
RELATIONS = Grammar(_RELATION)
URLS = Grammar(_REPOSITORY + _IBIP + _RELATION + _URL)
PAIR_LISTS = Grammar(_PAIR_LIST)
