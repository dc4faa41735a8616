"""An app of a module's own that is traced, for what runs in sandboxes: they import it."""

from __future__ import annotations

from opentelemetry import trace

from headrace import Headrace, current_job
from headrace.contrib.otel import instrument

app = Headrace("memory://")
instrument(app)


@app.task(isolation="process")
def where() -> tuple[str, str, str]:
    """The span that is current there, what the job goes back to, and its worker."""
    context = trace.get_current_span().get_span_context()
    return trace.format_span_id(context.span_id), current_job().correlation_id, current_job().worker
