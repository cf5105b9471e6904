"""Systems: which processes step envs, infer and learn, and what travels between them. No losses here."""
