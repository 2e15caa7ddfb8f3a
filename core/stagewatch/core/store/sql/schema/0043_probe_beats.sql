-- When the process that carries out a pass last said that it does, by the store's own clock.
CREATE TABLE IF NOT EXISTS probe_beats
(
    project LowCardinality(String),
    probe LowCardinality(String),
    pass_id String,
    beat DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(beat)
ORDER BY (project, probe, pass_id)
TTL toDateTime(beat) + INTERVAL 1 DAY
