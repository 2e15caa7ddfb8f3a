"""Telling people and systems about alerts: channels, their messages and the log of both."""
