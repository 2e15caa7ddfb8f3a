-- One row a turn; a re-assembled turn is a new row with a higher revision, the newest wins.
-- Lists read the narrow columns only: `body` holds the whole turn as the JSON of the API.
CREATE TABLE IF NOT EXISTS turns
(
    project LowCardinality(String),
    turn_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    duration_ms Float64 CODEC(ZSTD(1)),
    service LowCardinality(String),
    environment LowCardinality(String),
    release LowCardinality(String),
    index_version LowCardinality(String),
    prompt_version LowCardinality(String),
    model LowCardinality(String),
    conversation_id String CODEC(ZSTD(1)),
    turn_index Nullable(Int32),
    user_id String CODEC(ZSTD(1)),
    question String CODEC(ZSTD(1)),
    rewritten_query String CODEC(ZSTD(1)),
    answer String CODEC(ZSTD(1)),
    refused Nullable(Bool),
    error String CODEC(ZSTD(1)),
    tags Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    chunk_ids Array(String) CODEC(ZSTD(1)),
    document_ids Array(String) CODEC(ZSTD(1)),
    versions Array(String) CODEC(ZSTD(1)),
    input_tokens Nullable(UInt32),
    output_tokens Nullable(UInt32),
    cost_usd Nullable(Float64),
    conventions Array(LowCardinality(String)),
    missing Array(String) CODEC(ZSTD(1)),
    complete Bool,
    probe Bool,
    replaced_by String,
    assembled_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    revision UInt64 CODEC(ZSTD(1)),
    body String CODEC(ZSTD(1)),
    INDEX ix_turn turn_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_conversation conversation_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_assembled assembled_at TYPE minmax GRANULARITY 1,
    INDEX ix_question lower(question) TYPE text(tokenizer = 'splitByNonAlpha') GRANULARITY 1,
    INDEX ix_answer lower(answer) TYPE text(tokenizer = 'splitByNonAlpha') GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(started_at)
ORDER BY (project, toStartOfMinute(started_at), turn_id)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1
;;
-- One row per (turn, metric, fingerprint): storing a score twice changes nothing.
-- The turn's dimensions are copied in, so a series is one scan of this table.
CREATE TABLE IF NOT EXISTS scores
(
    project LowCardinality(String),
    turn_id String CODEC(ZSTD(1)),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    metric LowCardinality(String),
    status LowCardinality(String),
    value Nullable(Float64),
    verdict LowCardinality(String),
    hard_fail Bool,
    basis LowCardinality(String),
    judge LowCardinality(String),
    fingerprint LowCardinality(String),
    threshold Nullable(Float64),
    reason String CODEC(ZSTD(1)),
    at DateTime64(3, 'UTC'),
    revision UInt64,
    inclusion Nullable(Float64),
    stratum LowCardinality(String),
    conversation_id String CODEC(ZSTD(1)),
    service LowCardinality(String),
    release LowCardinality(String),
    index_version LowCardinality(String),
    prompt_version LowCardinality(String),
    INDEX ix_turn turn_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project, metric, toStartOfHour(started_at), turn_id, fingerprint)
SETTINGS non_replicated_deduplication_window = 10000
;;
CREATE TABLE IF NOT EXISTS claims
(
    project LowCardinality(String),
    turn_id String CODEC(ZSTD(1)),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    fingerprint LowCardinality(String),
    at DateTime64(3, 'UTC'),
    body String CODEC(ZSTD(1)),
    INDEX ix_turn turn_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project, toStartOfHour(started_at), turn_id, fingerprint)
;;
CREATE TABLE IF NOT EXISTS diagnoses
(
    project LowCardinality(String),
    turn_id String CODEC(ZSTD(1)),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stage LowCardinality(String),
    why String CODEC(ZSTD(1)),
    missing Array(String),
    passed Nullable(Bool),
    relevance Array(Int8),
    fingerprint LowCardinality(String),
    at DateTime64(3, 'UTC'),
    inclusion Nullable(Float64),
    service LowCardinality(String),
    release LowCardinality(String),
    index_version LowCardinality(String),
    prompt_version LowCardinality(String),
    INDEX ix_turn turn_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project, toStartOfHour(started_at), turn_id)
;;
-- Every eligible turn has one: scored, or why not.
CREATE TABLE IF NOT EXISTS decisions
(
    project LowCardinality(String),
    turn_id String CODEC(ZSTD(1)),
    started_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    outcome LowCardinality(String),
    rule LowCardinality(String),
    inclusion Nullable(Float64),
    stratum LowCardinality(String),
    why String CODEC(ZSTD(1)),
    revision UInt64,
    at DateTime64(3, 'UTC'),
    INDEX ix_turn turn_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project, toStartOfHour(started_at), turn_id)
;;
-- Each judge call once: the key is what the judge is (fingerprint) and what it read (input hash).
CREATE TABLE IF NOT EXISTS judgements
(
    fingerprint LowCardinality(String),
    input_hash String CODEC(ZSTD(1)),
    output String CODEC(ZSTD(1)),
    input_tokens UInt32,
    output_tokens UInt32,
    cost_usd Float64,
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (fingerprint, input_hash)
TTL toDateTime(at) + INTERVAL 90 DAY
