-- Who asks: a reviewer looking for a passage that was never fetched for the turn at hand.
-- Reads the bodies of the newest {turns} turns of the project, so the cost is bounded by that number
-- and not by what is stored; ix_started through the primary key (project, minute).
SELECT
    JSONExtractString(chunk, 'chunk_id') AS chunk_id,
    JSONExtractString(chunk, 'document_id') AS document_id,
    JSONExtractString(chunk, 'version') AS version,
    leftUTF8(any(JSONExtractString(chunk, 'content')), 500) AS content,
    count() AS fetched
FROM
(
    SELECT arrayJoin(arrayFlatten(arrayMap(
        item -> JSONExtractArrayRaw(item, 'chunks'), JSONExtractArrayRaw(body, 'retrievals')))) AS chunk
    FROM
    (
        SELECT body FROM turns FINAL
        WHERE project = {project:String} AND replaced_by = ''
        ORDER BY started_at DESC LIMIT {turns:UInt32}
    )
)
WHERE chunk_id != '' AND hasAllTokens(lower(JSONExtractString(chunk, 'content')), {q:String})
GROUP BY chunk_id, document_id, version
ORDER BY fetched DESC, chunk_id
LIMIT {limit:UInt32}
