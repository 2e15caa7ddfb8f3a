-- Whole spans of some traces, for the assembler and the trace page. Partition and primary key are
-- narrowed by the range from spans_index_of_traces and, for few traces, the hash of their ids (that of
-- hundreds lies everywhere); a span that came in two bodies is
-- read once (the first received). Values that are not text are sent as base64.
SELECT
    hex(trace_id) AS trace,
    hex(span_id) AS span,
    hex(parent_id) AS parent,
    name, kind, start_ns, duration_ns, status_code, status_message,
    scope_name, scope_version, scope_attrs, scope_schema_url, resource, resource_schema_url,
    trace_state, flags,
    mapKeys(attrs) AS keys,
    arrayMap((v, k) -> if(k >= 5, base64Encode(v), v), mapValues(attrs), kinds) AS vals,
    kinds,
    arrayMap(x -> base64Encode(x), events) AS events,
    arrayMap(x -> base64Encode(x), links) AS links,
    dropped_attributes, dropped_events, dropped_links,
    received_at
FROM spans
WHERE project = {project:String}
    AND day BETWEEN {first_day:Date} AND {last_day:Date}
    AND start_ns BETWEEN {first_ns:UInt64} AND {last_ns:UInt64}
    AND ({many:Bool} OR xxHash32(trace_id) IN (
        SELECT xxHash32(toFixedString(substring(unhex({ids:String}), 1 + 16 * number, 16), 16))
        FROM numbers({count:UInt32})))
    AND trace_id IN (SELECT toFixedString(substring(unhex({ids:String}), 1 + 16 * number, 16), 16)
        FROM numbers({count:UInt32}))
ORDER BY received_at
LIMIT 1 BY trace_id, span_id
LIMIT {limit:UInt64}
