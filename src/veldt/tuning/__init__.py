"""The search for the settings with the best score, over runs on this machine."""
