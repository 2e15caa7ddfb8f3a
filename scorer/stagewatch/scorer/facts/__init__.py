"""Things in a text that can be checked exactly: numbers, units, money, dates, bounds, negation."""
