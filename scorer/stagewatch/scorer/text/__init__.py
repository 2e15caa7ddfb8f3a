"""Plain text reading: words and stems, sentences with offsets, passages with an index, claims."""
