-- The frozen set as a judge read it, one row a reading of the whole set.
CREATE TABLE IF NOT EXISTS canary_runs
(
    fingerprint LowCardinality(String),
    canary LowCardinality(String),
    run_id String,
    started_at DateTime64(6, 'UTC'),
    body String CODEC(ZSTD(3)),
    at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (fingerprint, canary, started_at, run_id)
TTL toDateTime(started_at) + INTERVAL 800 DAY
