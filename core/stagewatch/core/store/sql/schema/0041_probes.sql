-- One row a pass of a probe over its dataset rows; the newest row of a pass wins.
CREATE TABLE IF NOT EXISTS probe_passes
(
    project LowCardinality(String),
    probe LowCardinality(String),
    pass_id String,
    started_at DateTime64(6, 'UTC'),
    state LowCardinality(String),
    body String CODEC(ZSTD(1)),
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (project, probe, started_at, pass_id)
TTL toDateTime(started_at) + INTERVAL 400 DAY
;;
-- What a row got in a pass: the whole result, for looking at it.
CREATE TABLE IF NOT EXISTS probe_rows
(
    project LowCardinality(String),
    probe LowCardinality(String),
    pass_id String,
    row_id String,
    asked_at DateTime64(6, 'UTC'),
    calls UInt16,
    verdict LowCardinality(String),
    body String CODEC(ZSTD(1)),
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (project, probe, asked_at, pass_id, row_id)
TTL toDateTime(asked_at) + INTERVAL 60 DAY
;;
-- Its scores, for series: the columns of `scores` that a reading needs.
CREATE TABLE IF NOT EXISTS probe_scores
(
    project LowCardinality(String),
    probe LowCardinality(String),
    metric LowCardinality(String),
    pass_id String,
    row_id String,
    asked_at DateTime64(6, 'UTC'),
    status LowCardinality(String),
    value Nullable(Float64),
    verdict LowCardinality(String),
    hard_fail Bool,
    reason String CODEC(ZSTD(1)),
    fingerprint LowCardinality(String),
    basis LowCardinality(String),
    threshold Nullable(Float64),
    version UInt32,
    release LowCardinality(String),
    index_version LowCardinality(String),
    prompt_version LowCardinality(String),
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(asked_at)
ORDER BY (project, probe, metric, asked_at, pass_id, row_id)
TTL toDateTime(asked_at) + INTERVAL 400 DAY
;;
-- Traces that a probe caused: their turns are probes whether the app says so or not.
CREATE TABLE IF NOT EXISTS probe_traces
(
    project LowCardinality(String),
    trace_id String,
    probe LowCardinality(String),
    at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (project, trace_id)
TTL toDateTime(at) + INTERVAL 40 DAY
