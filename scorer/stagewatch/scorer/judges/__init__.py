"""Judges: what reads a turn's texts and labels them. All speak the protocol in `protocol`."""
