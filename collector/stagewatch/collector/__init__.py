"""Takes OTLP, stores it exactly once, assembles turns."""
