"""A frozen set of texts that the judge reads again and again: does the judge itself move?"""
