-- Turns without a decision at their present revision, a page of them by (assembled_at, turn_id).
-- The share of a scorer is by xxHash64, so that it has nothing to do with the sampling hash.
-- A decision is never older than its turn's assembly, a day being more than clocks differ.
SELECT body, revision, assembled_at FROM turns FINAL
WHERE (assembled_at, turn_id) > ({after:DateTime64(3, 'UTC')}, {turn:String})
  AND assembled_at >= {after:DateTime64(3, 'UTC')}
  AND replaced_by = ''
  AND started_at >= {horizon:DateTime64(6, 'UTC')}
  AND xxHash64(turn_id) % {count:UInt32} = {index:UInt32}
  AND (turn_id, revision) NOT IN (
    SELECT turn_id, revision FROM decisions
    WHERE at >= {after:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
      AND outcome NOT IN {settled:Array(String)})
  AND turn_id NOT IN (
    SELECT turn_id FROM decisions
    WHERE at >= {after:DateTime64(3, 'UTC')} - INTERVAL 1 DAY
    GROUP BY turn_id
    HAVING argMax(outcome, at) = 'pending' AND argMax(member, at) IN {others:Array(String)})
ORDER BY assembled_at, turn_id LIMIT {limit:UInt32}
