-- What judge calls cost, as they are paid: one row a group of calls, never merged away.
CREATE TABLE IF NOT EXISTS spending
(
    day Date,
    project LowCardinality(String),
    rule LowCardinality(String),
    calls UInt32,
    input_tokens UInt64,
    output_tokens UInt64,
    cost_usd Float64,
    at DateTime64(3, 'UTC')
)
ENGINE = MergeTree
ORDER BY (day, project, rule)
TTL day + INTERVAL 400 DAY
;;
-- Scorers that are alive. `beat` is the store's own clock, so that members need not agree on time.
CREATE TABLE IF NOT EXISTS scorers
(
    member String,
    body String CODEC(ZSTD(1)),
    beat DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(beat)
ORDER BY member
TTL toDateTime(beat) + INTERVAL 7 DAY
;;
-- Which scorer decided, or has a pending turn in hand; empty for a turn that merely waits.
ALTER TABLE decisions ADD COLUMN IF NOT EXISTS member LowCardinality(String)
;;
-- A scorer looks for decisions since its watermark.
ALTER TABLE decisions ADD INDEX IF NOT EXISTS ix_at at TYPE minmax GRANULARITY 1
