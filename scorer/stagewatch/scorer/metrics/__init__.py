"""The catalogue of metrics: pure functions, one subject a module, defined in METRICS terms.

| module | metrics |
|---|---|
| recall | `retrieved_recall`, `context_recall`, `context_recall_claims` |
| precision | `context_precision`, `context_precision_at_k`, `context_relevancy` |
| rank | `first_relevant_rank`, `reciprocal_rank`, the top-k curve |
| sufficiency | `context_sufficiency` |
| faithfulness | `faithfulness` |
| answer | `answer_relevancy`, `answer_precision` |
| refusal | `refusal`, and what a refusal means |
| rewrite | `rewrite_fidelity`, `rewrite_gain` |
| hygiene | `version_conflict`, `stale_context`, `answered_from_superseded` |
"""
