"""Regression: a plan asks the rows of a dataset of an app, runs are compared, a gate decides.

Read `plan` first (what is fixed), then `run` (ask and score), `diff` (two runs row by row) and
`gate` (what blocks a release). Light at import: the pytest plugin lives here too.
"""
