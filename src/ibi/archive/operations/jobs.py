"""The jobs of an Archive: operations that take long, running or ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field
from ibi.api.jobs import JOB, job_facts
from ibi.api.operations import Operation
from ibi.api.routes import list_of, record

if TYPE_CHECKING:
    from ibi.archive.operations.context import ArchiveContext


class JobFields(Fields, frozen=True):
    """One job."""

    id: Annotated[str, field("the job", "id ID", longest=32)]


def all_jobs(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return every job of the last week, the latest first. Raises SetupError."""
    context.directory.settings()  # raises SetupError if this is no Archive, as after a typing error
    return {"jobs": [job_facts(each, context.say) for each in context.jobs.all()]}


def one(context: ArchiveContext, fields: JobFields) -> dict[str, Any]:
    """Return how far a job is. Raises NotHeld."""
    return job_facts(context.jobs.find(fields.id), context.say)


def stop(context: ArchiveContext, fields: JobFields) -> dict[str, Any]:
    """Ask a job to stop; what it has done stays. Raises NotHeld, HoldingError."""
    return job_facts(context.jobs.stop(fields.id), context.say)


OPERATIONS: Final = (
    Operation(
        "jobs", "long tasks and their progress", Scope.ADMIN, NoFields, all_jobs, "GET /jobs",
        gives=record(jobs=list_of(JOB)), version=lambda context, _fields: [each.id for each in context.jobs.all()],
    ),
    Operation("job", "how far a job is", Scope.ADMIN, JobFields, one, "GET /jobs/<word>", place="id", gives=JOB,
        version=lambda context, fields: [fields.id, context.jobs.find(fields.id).state],
    ),
    Operation(
        "stop-job", "ask a job to stop; what it has done stays", Scope.ADMIN, JobFields, stop, "DELETE /jobs/<word>",
        place="id", gives=JOB,
    ),
)  # fmt: skip
