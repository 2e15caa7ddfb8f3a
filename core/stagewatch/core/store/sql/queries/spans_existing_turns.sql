-- The turns that some traces have already, asked by the assembler to see what late spans changed.
-- Served by the bloom filter on trace_id of turns.
SELECT trace_id, turn_id, body, revision
FROM
(
    SELECT trace_id, turn_id, body, revision, replaced_by
    FROM turns
    WHERE project = {project:String} AND trace_id IN {ids:Array(String)}
    ORDER BY revision DESC
    LIMIT 1 BY turn_id
)
WHERE replaced_by = ''
