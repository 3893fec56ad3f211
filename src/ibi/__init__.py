"""The Internet Based Identifier: names of information items that outlive their addresses.

The names below are the promised ones; all of them are pure: they read and make identifiers, and the messages about
them, and need no third-party package, network or clock. The command `ibi` runs the servers.

Entry points: `parse_ibi`, `unwrap`, `LabelGenerator` with `distribute`, and `PersistentURL`.
"""

from ibi.errors import IbiError, ParseError
from ibi.identifier.distributor import Slot, distribute
from ibi.identifier.forms import IBI, IBIForms, Name, parse_ibi, parse_name
from ibi.identifier.generator import LabelGenerator
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName
from ibi.identifier.unwrapping import unwrap
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
    "unwrap",
]
