"""The fixed words of the messages (R15 chapters 6 to 9)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ItemState(StrEnum):
    """What an Archive holds of an item (ARC-07)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


class ContentType(StrEnum):
    """What kind of item it is; not a MIME type."""

    DATA = "Data"
    METADATA = "Metadata"


class Subject(StrEnum):
    """What a request asks a service for (MSG-05)."""

    INCLUSION = "inclusionRequest"
    EXCLUSION = "exclusionRequest"
    CONFIRMATION = "inclusionConfirmationRequest"
    URL = "urlRequest"
    ACKNOWLEDGMENT = "acknowledgment"
    CHANGE = "changeNotification"


SERVICE_SUBJECT: Final = "servicesubject"
CLIENT_ADDRESSES: Final = "clientinformation.ipaddress"
PARSED_IBI: Final = "parsedibiurl.ibi"
PARSED_FILE_PATH: Final = "parsedibiurl.filepath"
PARSED_VERBS: Final = "parsedibiurl.verblist"
ARCHIVE_ADDRESS: Final = "archiveaddress"
ARCHIVE_SERVICE: Final = "ibi.archiveservice"
PLATFORM_SOFTWARE: Final = "ibi.platformsoftware"
NEXT_EDITION: Final = "ibi.nextedition"
FARTHEST_EDITION: Final = "edition.farthest"
"""The farthest edition that the Archive knows of, where that is not the next one (ours)."""
CONTENT_TYPE: Final = "contenttype"
IBI: Final = "ibi"
STATE: Final = "state"
TIMESTAMP: Final = "timestamp"
URL: Final = "url"
URL_KEY: Final = "urlkey"
PERSISTENT_URL: Final = "url.persistent"
CHANGED: Final = "changed"
REMOVED: Final = "removed"
EXCLUSION_END: Final = "exclusion.end"
NEVER: Final = "never"
"""The end of an exclusion that is for good."""
ACKNOWLEDGMENT_REFUSED: Final = "ibi-acknowledgment-refused"
"""A header of notices of acknowledgments that did not count: why, in a word (note 1)."""
CHANGE_NOTICES: Final = "ibi-change-notices"
"""A header of inclusion statuses: "yes" of a resolver that takes notices of change (note 46)."""
INCOMPLETE: Final = "ibi-incomplete"
"""A header of redirects to an original: how many Archives were silent, of how many (note 6)."""
ACKNOWLEDGMENT_BATCH: Final = "acknowledgment.batch"
ACKNOWLEDGMENT_COUNT: Final = "acknowledgment.count"
ACKNOWLEDGMENT_ID: Final = "acknowledgment.id"
VERBS_OF_URL: Final = "ibiurl.verblist"
REQUIRED_STATE: Final = "ibiurl.requireditemstatus"
OUR_PARAMETERS: Final = "ibiurl."
"""How the names of the query pairs begin that are meant for the system, not for the item (URL-15)."""
