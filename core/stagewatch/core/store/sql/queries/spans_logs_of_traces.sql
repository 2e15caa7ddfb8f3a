-- Log records of some traces, for the assembler: they may come before, with or after their spans,
-- so time is not narrowed; served by the bloom filter on trace_id. The same record in two bodies
-- is read once.
SELECT
    hex(trace_id) AS trace,
    hex(span_id) AS span,
    event_name, time_ns, observed_ns, scope_name, resource,
    base64Encode(body) AS body64,
    mapKeys(attrs) AS keys,
    arrayMap((v, k) -> if(k >= 5, base64Encode(v), v), mapValues(attrs), kinds) AS vals,
    kinds
FROM logs
WHERE project = {project:String}
    AND trace_id IN (SELECT toFixedString(substring(unhex({ids:String}), 1 + 16 * number, 16), 16)
        FROM numbers({count:UInt32}))
ORDER BY time_ns
LIMIT 1 BY trace_id, span_id, time_ns, event_name, cityHash64(body, attrs)
LIMIT {limit:UInt64}
