"""Dataset rows asked of the live app on a schedule, and scored by their labels."""
