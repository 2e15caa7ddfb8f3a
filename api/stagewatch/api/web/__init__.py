"""The web UI: server-rendered pages, static files."""
