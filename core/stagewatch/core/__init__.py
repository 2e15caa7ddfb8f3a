"""What every part shares: settings, errors, model, store, command line."""
