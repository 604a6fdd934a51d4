"""Other people's tools: what they read is made here, what they give is taken. Each is imported where it is used."""
