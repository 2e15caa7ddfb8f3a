"""Scores each stage of a turn, names the failing one, and says how far each number can be trusted.

`metrics` are pure functions, `judges` read text, `evaluate_turn` puts both together for one turn,
`service` does so for live turns on a schedule, `calibrate` compares a judge with people.
"""
