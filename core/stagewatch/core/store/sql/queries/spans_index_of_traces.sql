-- Size and age of some traces, asked by the assembler before it reads their spans.
-- Served by the primary key of trace_index.
SELECT hex(trace_id) AS trace, sum(spans) AS stored, min(first_received) AS first_received
FROM trace_index
WHERE project = {project:String}
    AND trace_id IN arrayMap(x -> toFixedString(unhex(x), 16), {ids:Array(String)})
GROUP BY trace_id
