"""Attribute names on the wire. The SDK writes them and the collector reads them.

Where OpenTelemetry's GenAI conventions or OpenInference have a name it is used as it stands;
`stagewatch.*` names exist only for what neither can say. Readers accept `rag.*` for `stagewatch.*`.
"""

from __future__ import annotations

from typing import Final

STEP: Final = "stagewatch.step"
"""Which stage a span is: turn, rewrite, retrieve, rerank or generate."""

OPERATION: Final = "gen_ai.operation.name"
WORKFLOW: Final = "gen_ai.workflow.name"
SPAN_KIND: Final = "openinference.span.kind"
INPUT: Final = "input.value"
OUTPUT: Final = "output.value"

CONVERSATION_ID: Final = "gen_ai.conversation.id"
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"
TURN_INDEX: Final = "stagewatch.turn.index"
HISTORY: Final = "stagewatch.history"
"""JSON list of `{"role", "content"}`: the dialogue before the question."""

REWRITTEN_QUERY: Final = "stagewatch.query.rewritten"
REWRITE_APPLIED: Final = "stagewatch.rewrite.applied"
"""False when the rewriter ran and left the question as it was."""

RETRIEVAL_QUERY: Final = "gen_ai.retrieval.query.text"
RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
DATA_SOURCE: Final = "gen_ai.data_source.id"
DOCUMENTS: Final = "gen_ai.retrieval.documents"
"""One JSON list, so that an attribute count limit can never lose a rank."""

SCORE_KIND: Final = "stagewatch.retrieval.score_kind"
"""similarity, distance, rrf, bm25 or rerank. Distances are better when lower."""

RERANK_QUERY: Final = "reranker.query"
RERANK_MODEL: Final = "reranker.model_name"
RERANK_TOP_K: Final = "reranker.top_k"
RERANK_INPUT_IDS: Final = "stagewatch.rerank.input_ids"
RERANK_DOCUMENTS: Final = "stagewatch.rerank.documents"

CONTEXT_IDS: Final = "stagewatch.context.ids"
CONTEXT_DOCUMENTS: Final = "stagewatch.context.documents"
"""JSON list of what was put in the prompt, sent only when some of it has no id."""

PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
COST_USD: Final = "stagewatch.usage.cost_usd"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
PROMPT_NAME: Final = "gen_ai.prompt.name"
PROMPT_VERSION: Final = "gen_ai.prompt.version"

INDEX_VERSION: Final = "stagewatch.index.version"
RELEASE: Final = "stagewatch.release"
"""Overrides `service.version` of the resource for one turn (a canary, an experiment arm)."""

REFUSED: Final = "stagewatch.refused"
REUSED_FROM: Final = "stagewatch.reused_from"
"""Id of the earlier turn whose retrieved context this turn used again."""

PROBE: Final = "stagewatch.probe"
TAG_PREFIX: Final = "stagewatch.tag."
ERROR_TYPE: Final = "error.type"
STREAM_CLOSED_EARLY: Final = "stagewatch.stream.closed_early"

CUT: Final = "stagewatch.cut"
"""String array of `key:original_characters`: values the SDK shortened to its size cap."""

REDACTED: Final = "stagewatch.redacted"
"""String array of keys whose text was hashed or withheld by the content settings."""

ALIAS_PREFIX: Final = "rag."
OWN_PREFIX: Final = "stagewatch."
