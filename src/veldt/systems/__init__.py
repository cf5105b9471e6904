"""Systems: which processes step envs, infer and learn, and which messages they exchange. No losses here."""
