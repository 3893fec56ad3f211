"""The Internet Based Identifier: names of information items that outlive their addresses.

The front door opens on the pure floors only: reading and making identifiers, and the messages about them. Nothing
here needs a third-party package, a network or a clock. The servers are behind the command `ibi`.
"""

from ibi.errors import IbiError, ParseError
from ibi.identifier.distributor import Slot, distribute
from ibi.identifier.forms import IBI, IBIForms, Name, parse_ibi, parse_name
from ibi.identifier.generator import LabelGenerator
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.peeling import peel
from ibi.identifier.repository import UniformRepositoryName
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Relation
from ibi.protocol.url_list import UrlList

__version__ = "0.1.0"

__all__ = [
    "IBI",
    "IBIForms",
    "IBIp",
    "IbiError",
    "LabelGenerator",
    "LegacyId",
    "Name",
    "ParseError",
    "PersistentURL",
    "Relation",
    "Slot",
    "UniformRepositoryName",
    "UrlList",
    "distribute",
    "parse_ibi",
    "parse_name",
    "peel",
]
