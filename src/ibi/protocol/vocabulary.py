"""The fixed words of the messages (R15 chapters 6 to 9)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ItemState(StrEnum):
    """How an Archive holds an item (ARC-07: three states)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


class ContentType(StrEnum):
    """Whether an item is data or metadata; not a MIME type."""

    DATA = "Data"
    METADATA = "Metadata"


class Subject(StrEnum):
    """The kinds of requests to a service, as in the pair `servicesubject` (MSG-05: the subject)."""

    INCLUSION = "inclusionRequest"
    EXCLUSION = "exclusionRequest"
    CONFIRMATION = "inclusionConfirmationRequest"
    URL = "urlRequest"
    ACKNOWLEDGMENT = "acknowledgment"
    CHANGE = "changeNotification"
    CHANGES = "changesRequest"


SERVICE_SUBJECT: Final = "servicesubject"
CLIENT_ADDRESSES: Final = "clientinformation.ipaddress"
PARSED_IBI: Final = "parsedibiurl.ibi"
PARSED_FILE_PATH: Final = "parsedibiurl.filepath"
PARSED_VERBS: Final = "parsedibiurl.verblist"
ARCHIVE_ADDRESS: Final = "archiveaddress"
ADMIN_MAIL: Final = "archiveadmemailaddress"
ARCHIVE_IP: Final = "archiveip"
PLATFORM_VERSION: Final = "archiveplatformversion"
ARCHIVE_PROTOCOL: Final = "archiveprotocol"
ARCHIVE_SERVICE_IBI: Final = "archiveserviceibi"
REGISTRATION_KEY: Final = "registrationkey"
ARCHIVE_SERVICE: Final = "ibi.archiveservice"
PLATFORM_SOFTWARE: Final = "ibi.platformsoftware"
NEXT_EDITION: Final = "ibi.nextedition"
ARCHIVE_ROOT: Final = "archive.root"
"""The root of the Archive's URLs, if it is not http and its address (our extension)."""
FARTHEST_EDITION: Final = "edition.farthest"
"""The latest edition that the Archive knows of, if it is not the next one (our extension)."""
CONTENT_TYPE: Final = "contenttype"
IBI: Final = "ibi"
STATE: Final = "state"
TIMESTAMP: Final = "timestamp"
URL: Final = "url"
URL_KEY: Final = "urlkey"
PERSISTENT_URL: Final = "url.persistent"
CHANGED: Final = "changed"
REMOVED: Final = "removed"
CHANGES_WORD: Final = "changes.word"
CHANGES_AFTER: Final = "changes.after"
CHANGES_TO: Final = "changes.to"
CHANGES_NAMES: Final = "changes.names"
CHANGES_MORE: Final = "changes.more"
CHANGES_ANYTHING: Final = "changes.anything"
CHANGES_AS_OF: Final = "changes.asof"
CHANGES_RESTS: Final = "changes.rests"
CHANGES_SECONDS: Final = "changes.seconds"
"""Our extension: pairs of requests for changes, and of answers that live until something changes."""
EXCLUSION_END: Final = "exclusion.end"
NEVER: Final = "never"
"""The value of EXCLUSION_END for an Archive that will not come back."""
ACKNOWLEDGMENT_REFUSED: Final = "ibi-acknowledgment-refused"
"""A header of the reply to an acknowledgment that was not counted: the reason in one word (note 1)."""
CHANGE_NOTICES: Final = "ibi-change-notices"
"""A header of inclusion statuses: "yes" if the resolver accepts notices of change (note 46: notices of change)."""
ARCHIVE_TITLE: Final = "ibi-archive-title"
"""A header of inclusion requests: what readers call the Archive, in UTF-8 and percent-encoded (our extension)."""
ARCHIVE_TITLE_PT: Final = "ibi-archive-title-pt"
"""The same in Portuguese, if it has another name there (our extension)."""
INCOMPLETE: Final = "ibi-incomplete"
"""A header of redirects to an original: the number of silent Archives and of all asked (note 6: silence is no
absence)."""
ACKNOWLEDGMENT_BATCH: Final = "acknowledgment.batch"
ACKNOWLEDGMENT_COUNT: Final = "acknowledgment.count"
ACKNOWLEDGMENT_ID: Final = "acknowledgment.id"
VERBS_OF_URL: Final = "ibiurl.verblist"
REQUIRED_STATE: Final = "ibiurl.requireditemstatus"
OUR_PARAMETERS: Final = "ibiurl."
"""The prefix of names of query pairs that are for the system, not for the item (URL-15: foreign pairs go on)."""

LINKSET: Final = "linkset"
"""The name, as of a metadata format, under which our Archives offer the links of an item (our extension)."""
METADATA_FORMATS: Final = {
    "csl": ("application/vnd.citationstyles.csl+json",),
    "bibtex": ("application/x-bibtex", "text/x-bibtex"),
    "ris": ("application/x-research-info-systems",),
    "datacite-xml": ("application/vnd.datacite.datacite+xml",),
    "datacite-json": ("application/vnd.datacite.datacite+json",),
    "jsonld": ("application/ld+json", "application/vnd.schemaorg.ld+json"),
    "turtle": ("text/turtle",),
    "rdfxml": ("application/rdf+xml",),
    "citation": ("text/x-bibliography",),
    LINKSET: ("application/linkset+json", "application/linkset"),
}
"""The formats that our Archives write beside oai_dc, by their names in `:(bibtex)`, with the media types by which
each is requested, its own first (our extension)."""
FORMAT_BY_TYPE: Final = {kind: name for name, kinds in METADATA_FORMATS.items() for kind in kinds}
"""The name of the format for each of these media types."""
