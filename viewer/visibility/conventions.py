"""The metadata fields of published tracing conventions, each with the shape of its values.

Taken from the attribute lists of OpenTelemetry (GenAI, HTTP, databases, RPC, resources), OpenInference, Traceloop
(OpenLLMetry), Langfuse, the Vercel AI SDK and the OpenAI Agents SDK. Fields that these lists describe as prompts,
answers, queries, bodies, headers, descriptions, messages, free-form metadata or the id of a person are left out on
purpose, and so is every field that no list declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewer.visibility.shapes import (
    Shape,
    fields,
    identifier,
    label,
    list_of,
    number,
    numbers,
    route,
    time,
    word,
)


def _names(prefix: str, names: str, shape: Shape) -> dict[str, Shape]:
    return {prefix + name: shape for name in names.split()}


OPENTELEMETRY: Mapping[str, Shape] = {
    **_names("gen_ai.", "operation.name system provider.name output.type token.type tool.name tool.type", word),
    **_names("gen_ai.", "agent.name workflow.name prompt.name evaluation.name evaluation.score.label", label),
    **_names("gen_ai.", "agent.id agent.version conversation.id data_source.id tool.call.id response.id", identifier),
    **_names("gen_ai.", "request.model response.model", label),
    **_names("gen_ai.", "response.finish_reasons request.encoding_formats", list_of(word)),
    **_names("gen_ai.request.", "choice.count frequency_penalty max_tokens presence_penalty seed stream", number),
    **_names("gen_ai.request.", "temperature top_k top_p is_stream", number),
    **_names("gen_ai.", "embeddings.dimension.count evaluation.score.value conversation.compacted", number),
    **_names("gen_ai.", "response.time_to_first_chunk server.time_to_first_token", number),
    **_names("gen_ai.openai.", "request.service_tier response.service_tier response.system_fingerprint", word),
    **_names("openai.", "api.type request.service_tier response.service_tier response.system_fingerprint", word),
    **_names("aws.bedrock.", "guardrail.id knowledge_base.id", identifier),
    **_names("azure.", "resource_provider.namespace", word),
    **_names("mcp.", "method.name protocol.version", word),
    **_names("mcp.", "session.id request.id", identifier),
    **_names("", "error.type exception.type", word),
    **_names("exception.", "escaped", number),
    **_names("http.", "method request.method request.method_original scheme flavor", word),
    **_names("http.", "status_code response.status_code request.resend_count request.body.size", number),
    **_names("http.", "response.body.size request_content_length response_content_length", number),
    **_names("http.", "route", route),
    **_names("", "url.scheme network.protocol.name network.protocol.version network.transport network.type", word),
    **_names("", "server.address net.peer.name net.host.name peer.service", word),
    **_names("", "server.port client.port network.peer.port net.peer.port net.host.port", number),
    **_names("db.", "system system.name operation operation.name collection.name namespace name sql.table", word),
    **_names("db.", "operation.batch.size response.returned_rows response.status_code vector.query.top_k", number),
    **_names("rpc.", "system service method", word),
    **_names("rpc.", "grpc.status_code jsonrpc.error_code", number),
    **_names("messaging.", "system operation.name operation.type destination.name", word),
    **_names("code.", "function function.name namespace", word),
    **_names("code.", "lineno line.number column column.number", number),
    **_names("service.", "name namespace version instance.id", identifier),
    **_names("", "deployment.environment deployment.environment.name otel.status_code", word),
    **_names("otel.", "scope.name scope.version library.name library.version", identifier),
    **_names("telemetry.sdk.", "name language version", word),
    **_names("thread.", "id", number),
    **_names("", "session.id", identifier),
}

OPENINFERENCE: Mapping[str, Shape] = {
    **_names("openinference.span.", "kind", word),
    **_names("llm.", "provider system finish_reason", word),
    **_names("", "llm.model_name llm.request.model_name llm.response.model_name", label),
    **_names("", "embedding.model_name reranker.model_name agent.name", label),
    **_names("", "tool.name graph.node.name llm.prompt_template.version prompt.vendor", word),
    **_names("", "tool.id tool_call.id graph.node.id graph.node.parent_id prompt.id document.id", identifier),
    **_names("", "input.mime_type output.mime_type", word),
    **_names("", "reranker.top_k document.score annotation.score evaluation.score", number),
    **_names("", "annotation.name annotation.annotator_kind evaluation.name evaluation.annotator_kind", word),
}

TRACELOOP: Mapping[str, Shape] = {
    **_names("traceloop.", "span.kind entity.name entity.path workflow.name entity.version", word),
    **_names("traceloop.prompt.", "managed version", number),
    **_names("traceloop.prompt.", "key version_name version_hash", word),
    **_names("traceloop.", "correlation.id association.properties.session_id", identifier),
    **_names("llm.", "request.type usage.token_type response.finish_reason response.stop_reason", word),
    **_names("llm.", "usage.total_tokens top_k is_streaming frequency_penalty presence_penalty", number),
    **_names("llm.", "request.repetition_penalty", number),
    **_names("gen_ai.openai.", "api_version api_type system_fingerprint", word),
    **_names("pinecone.", "query.top_k usage.read_units usage.write_units query.include_metadata", number),
}

LANGFUSE: Mapping[str, Shape] = {
    **_names("langfuse.", "observation.type observation.level environment release version", word),
    **_names("langfuse.", "observation.prompt.name observation.prompt.version internal.as_root trace.public", word),
    **_names("langfuse.", "session.id", identifier),
    **_names("langfuse.observation.", "model.name", label),
    **_names("langfuse.observation.", "usage_details cost_details model.parameters", numbers),
    **_names("langfuse.observation.", "completion_start_time", time),
}

VERCEL_AI_SDK: Mapping[str, Shape] = {
    **_names("ai.", "operationId finishReason response.finishReason prompt.format settings.mode settings.output", word),
    **_names("ai.", "schema.name toolCall.name telemetry.functionId model.provider", word),
    **_names("ai.", "model.id response.model", label),
    **_names("ai.", "response.id toolCall.id", identifier),
    **_names("ai.", "response.timestamp", time),
    **_names("ai.", "stream.msToFirstChunk response.msToFirstChunk response.msToFinish", number),
    **_names("ai.", "response.avgCompletionTokensPerSecond response.avgOutputTokensPerSecond", number),
    # `operation.name` is the operation and, after a space, the function id of the caller.
    **_names("", "operation.name", label),
    **_names("", "resource.name", word),
}

# Fields that a convention defines by a prefix. The rest of the key is not free text: it must be a name as well.
PREFIXES: Mapping[str, Shape] = {
    "gen_ai.usage.": number,
    "llm.token_count.": number,
    "llm.cost.": number,
    "ai.usage.": number,
    "ai.settings.": number,
}

_ERROR = fields({"type": word, "code": word, "escaped": number})
_COMMON: Mapping[str, Shape] = {
    **_names("", "session_id group_id trace_id span_id parent_id response_id previous_response_id", identifier),
    **_names("", "type status status_code", word),
    "error": _ERROR,
}

# The Agents SDK and the public Ariadne exporters use short names whose meaning depends on the kind of the span.
BY_KIND: Mapping[str, Mapping[str, Shape]] = {
    "trace": {"workflow_name": word},
    "agent": {
        **_names("", "name", label),
        "handoffs": list_of(label),
        "tools": list_of(word),
        "output_type": word,
    },
    "turn": _names("", "turn index agent_name", label),
    "generation": {
        **_names("", "model response_model", label),
        **_names("", "provider finish_reason service_tier request_class", word),
        **_names(
            "", "turn attempt cost latency_ms input_tokens output_tokens total_tokens http_status is_aside", number
        ),
        **_names("", "usage model_config", numbers),
    },
    "tool": {**_names("", "name tool_name server", label), **_names("", "call_id tool_call_id", identifier)},
    "handoff": _names("", "from_agent to_agent", label),
    "guardrail": {"name": label, "triggered": number},
    "embedding": {**_names("", "model", label), "usage": numbers},
    "retrieval": _names("", "top_k document_count", number),
    "custom": {"name": word},
}


def shape_of(kind: str, key: str) -> Shape | None:
    """Return the shape of a field of a span that is not a compaction event, or None if it is content."""
    for table in (BY_KIND.get(kind, {}), _ALL):
        if key in table:
            return table[key]
    return next((shape for prefix, shape in PREFIXES.items() if key.startswith(prefix)), None)


def _merge(tables: Iterable[Mapping[str, Shape]]) -> dict[str, Shape]:
    merged: dict[str, Shape] = {}
    for table in tables:
        merged |= table
    return merged


_ALL = _merge((OPENTELEMETRY, OPENINFERENCE, TRACELOOP, LANGFUSE, VERCEL_AI_SDK, _COMMON))

TRACE_METADATA: Mapping[str, Shape] = {**_ALL, **BY_KIND["trace"]}
