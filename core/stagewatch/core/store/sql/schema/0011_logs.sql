-- Log records: GenAI events and evaluation events come so, joined to spans by trace and span id.
-- Same forms as in spans (see there); `body` is a raw OTLP AnyValue.
CREATE TABLE IF NOT EXISTS otlp_logs_in
(
    resource_logs Array(Tuple(
        resource Tuple(
            attributes Array(Tuple(key String, value String)),
            dropped_attributes_count UInt32),
        scope_logs Array(Tuple(
            scope Tuple(
                name String,
                version String,
                attributes Array(Tuple(key String, value String)),
                dropped_attributes_count UInt32),
            log_records Array(Tuple(
                time_unix_nano UInt64,
                observed_time_unix_nano UInt64,
                severity_number Int32,
                severity_text String,
                body String,
                attributes Array(Tuple(key String, value Tuple(
                    string_value String, bool_value Bool, int_value Int64, double_value Float64,
                    array_value String, kvlist_value String, bytes_value String,
                    value Enum8('unset' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3,
                        'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7)))),
                dropped_attributes_count UInt32,
                flags UInt32,
                trace_id String,
                span_id String,
                event_name String)),
            schema_url String)),
        schema_url String)),
    frames Array(Tuple(project String, received UInt64, n UInt32, hash String, length UInt32))
)
ENGINE = Null
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_logs_in_to_bodies TO bodies AS
SELECT
    tupleElement(f, 'project') AS project,
    toFixedString(tupleElement(f, 'hash'), 16) AS hash,
    fromUnixTimestamp64Micro(toInt64(intDiv(tupleElement(f, 'received'), 1000))) AS received_at
FROM (SELECT arrayJoin(frames) AS f FROM otlp_logs_in)
;;
-- `trace_id` and `span_id` are zero bytes when the record has none (or one of a wrong length).
CREATE TABLE IF NOT EXISTS logs
(
    project LowCardinality(String),
    day Date CODEC(ZSTD(1)),
    received_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    time_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    observed_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    trace_id FixedString(16) CODEC(ZSTD(1)),
    span_id FixedString(8) CODEC(ZSTD(1)),
    flags UInt32 CODEC(ZSTD(1)),
    severity_number Int32 CODEC(ZSTD(1)),
    severity_text LowCardinality(String),
    event_name LowCardinality(String),
    service LowCardinality(String),
    body String CODEC(ZSTD(1)),
    resource LowCardinality(String),
    resource_schema_url LowCardinality(String),
    scope_name LowCardinality(String),
    scope_version LowCardinality(String),
    scope_attrs LowCardinality(String),
    scope_schema_url LowCardinality(String),
    attrs Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    kinds Array(UInt8) CODEC(ZSTD(1)),
    dropped_attributes UInt32 CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY day
ORDER BY (project, intDiv(time_ns, 60000000000), xxHash32(trace_id), span_id)
TTL day + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000,
    fsync_after_insert = 1, fsync_part_directory = 1, min_compressed_bytes_to_fsync_after_merge = 1,
    min_parts_to_merge_at_once = 8
;;
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_logs_in_to_logs TO logs AS
SELECT
    project,
    toDate(toDateTime(least(greatest(
        intDiv(time_ns, 1000000000), intDiv(received, 1000000000) - 2592000),
        intDiv(received, 1000000000) + 86400), 'UTC')) AS day,
    fromUnixTimestamp64Micro(toInt64(intDiv(received, 1000)), 'UTC') AS received_at,
    tupleElement(rec, 'time_unix_nano') AS time_ns,
    tupleElement(rec, 'observed_time_unix_nano') AS observed_ns,
    toFixedString(if(length(tupleElement(rec, 'trace_id')) = 16, tupleElement(rec, 'trace_id'), ''), 16) AS trace_id,
    toFixedString(if(length(tupleElement(rec, 'span_id')) = 8, tupleElement(rec, 'span_id'), ''), 8) AS span_id,
    tupleElement(rec, 'flags') AS flags,
    tupleElement(rec, 'severity_number') AS severity_number,
    tupleElement(rec, 'severity_text') AS severity_text,
    tupleElement(rec, 'event_name') AS event_name,
    service,
    tupleElement(rec, 'body') AS body,
    resource,
    resource_schema_url,
    scope_name,
    scope_version,
    scope_attrs,
    scope_schema_url,
    mapFromArrays(
        arrayMap(k -> toLowCardinality(k), tupleElement(tupleElement(rec, 'attributes'), 'key')),
        arrayMap((t, s, b, i, d, a, kv, by) -> multiIf(
                t = 'string_value', s, t = 'int_value', toString(i), t = 'double_value', toString(d),
                t = 'bool_value', if(b, 'true', 'false'), t = 'array_value', a,
                t = 'kvlist_value', kv, by),
            tupleElement(v, 'value'), tupleElement(v, 'string_value'), tupleElement(v, 'bool_value'),
            tupleElement(v, 'int_value'), tupleElement(v, 'double_value'),
            tupleElement(v, 'array_value'), tupleElement(v, 'kvlist_value'),
            tupleElement(v, 'bytes_value'))) AS attrs,
    arrayMap(t -> toUInt8(t), tupleElement(v, 'value')) AS kinds,
    tupleElement(rec, 'dropped_attributes_count') AS dropped_attributes
FROM
(
    SELECT rec, tupleElement(tupleElement(rec, 'attributes'), 'value') AS v,
        project, received, service, resource, resource_schema_url,
        scope_name, scope_version, scope_attrs, scope_schema_url
    FROM
    (
        SELECT tupleElement(sl, 'log_records') AS items,
            project, received, service, resource, resource_schema_url,
            toLowCardinality(tupleElement(tupleElement(sl, 'scope'), 'name')) AS scope_name,
            toLowCardinality(tupleElement(tupleElement(sl, 'scope'), 'version')) AS scope_version,
            toLowCardinality(if(empty(tupleElement(tupleElement(tupleElement(sl, 'scope'), 'attributes'), 'key'))
                    AND tupleElement(tupleElement(sl, 'scope'), 'dropped_attributes_count') = 0, '',
                    toJSONString((
                    tupleElement(tupleElement(tupleElement(sl, 'scope'), 'attributes'), 'key'),
                    arrayMap(x -> if(startsWith(x, '\x0A') AND position(substring(x, 3, 4), '\0') = 0,
                    substring(x, multiIf(length(x) < 130, 3, length(x) < 16387, 4, length(x) < 2097156, 5, 6)),
                    concat('\0', base64Encode(x))), tupleElement(tupleElement(tupleElement(sl, 'scope'), 'attributes'), 'value')),
                    tupleElement(tupleElement(sl, 'scope'), 'dropped_attributes_count'))))) AS scope_attrs,
            toLowCardinality(tupleElement(sl, 'schema_url')) AS scope_schema_url
        FROM
        (
            SELECT tupleElement(rl, 'scope_logs') AS groups,
                toLowCardinality(frame_project) AS project,
                received,
                tupleElement(tupleElement(tupleElement(rl, 'resource'), 'attributes'), 'value')[indexOf(tupleElement(tupleElement(tupleElement(rl, 'resource'), 'attributes'), 'key'), 'service.name')] AS name_value,
                toLowCardinality(if(startsWith(name_value, '\x0A'),
                    substring(name_value, if(length(name_value) < 130, 3, 4)), '')) AS service,
                toLowCardinality(toJSONString((
                tupleElement(tupleElement(tupleElement(rl, 'resource'), 'attributes'), 'key'),
                arrayMap(x -> if(startsWith(x, '\x0A') AND position(substring(x, 3, 4), '\0') = 0,
                substring(x, multiIf(length(x) < 130, 3, length(x) < 16387, 4, length(x) < 2097156, 5, 6)),
                concat('\0', base64Encode(x))), tupleElement(tupleElement(tupleElement(rl, 'resource'), 'attributes'), 'value')),
                tupleElement(tupleElement(rl, 'resource'), 'dropped_attributes_count')))) AS resource,
                toLowCardinality(tupleElement(rl, 'schema_url')) AS resource_schema_url
            FROM otlp_logs_in
            ARRAY JOIN
                resource_logs AS rl,
                arrayFlatten(arrayMap(f -> arrayWithConstant(tupleElement(f, 'n'), tupleElement(f, 'project')), frames)) AS frame_project,
                arrayFlatten(arrayMap(f -> arrayWithConstant(tupleElement(f, 'n'), tupleElement(f, 'received')), frames)) AS received
        )
        ARRAY JOIN groups AS sl
    )
    ARRAY JOIN items AS rec
)
;;
-- A record that comes late re-opens the turn of its trace.
CREATE MATERIALIZED VIEW IF NOT EXISTS logs_to_trace_touch TO trace_touch AS
SELECT project, trace_id, toUInt8(0) AS has_root, toUInt32(count()) AS n
FROM logs
WHERE trace_id != toFixedString('', 16)
GROUP BY project, trace_id
