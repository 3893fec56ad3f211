"""The place of an Archive in networks: its beginning, its resolvers, its settings, and what it does by itself."""
