"""The event catalog: the only place where event names and fields are defined.

One class per event, with its sentence. To add one, write its class and emit it. The parity tests then name the
documentation and the server's row that are missing.
"""

from __future__ import annotations

from compact.events import (
    check_events,
    compaction_events,
    problem_events,
    recall_events,
    rehydration_events,
    request_events,
    summary_events,
)
from compact.events.base import (
    EVENT_PREFIX,
    Clock,
    Event,
    flat_record,
    iso,
    utc_now,
)
from compact.events.catalog import (
    CATALOG,
    event_named,
)
from compact.events.check_events import *  # noqa: F403
from compact.events.check_span import (
    CheckSpan,
    Sink,
    new_span_id,
    new_trace_id,
    parent_span,
)
from compact.events.compaction_events import *  # noqa: F403
from compact.events.problem_events import *  # noqa: F403
from compact.events.recall_events import *  # noqa: F403
from compact.events.rehydration_events import *  # noqa: F403
from compact.events.request_events import *  # noqa: F403
from compact.events.summary_events import *  # noqa: F403

__all__ = [
    "CATALOG",
    "EVENT_PREFIX",
    "CheckSpan",
    "Clock",
    "Event",
    "Sink",
    "event_named",
    "flat_record",
    "iso",
    "new_span_id",
    "new_trace_id",
    "parent_span",
    "utc_now",
]
__all__ += check_events.__all__
__all__ += compaction_events.__all__
__all__ += problem_events.__all__
__all__ += recall_events.__all__
__all__ += rehydration_events.__all__
__all__ += request_events.__all__
__all__ += summary_events.__all__
