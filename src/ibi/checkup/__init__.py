"""The checkup of a data directory: each check looks at one thing and says what it found and what to do (threat T40)."""
