-- Every message to a channel with what became of it; the newest row of a delivery wins. The id is
-- made from channel, alert and event, so a message is never planned twice.
CREATE TABLE IF NOT EXISTS deliveries
(
    project LowCardinality(String),
    delivery_id String,
    channel LowCardinality(String),
    alert_id String,
    event LowCardinality(String),
    number UInt32,
    attempt UInt16,
    state LowCardinality(String),
    status UInt16,
    said String CODEC(ZSTD(1)),
    created_at DateTime64(6, 'UTC'),
    next_at Nullable(DateTime64(6, 'UTC')),
    at DateTime64(6, 'UTC'),
    body String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toYYYYMM(created_at)
ORDER BY (project, delivery_id)
TTL toDateTime(created_at) + INTERVAL 180 DAY
