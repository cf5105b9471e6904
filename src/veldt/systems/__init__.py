"""Where the work happens: who simulates, infers, learns, and what travels between them. No losses here."""
