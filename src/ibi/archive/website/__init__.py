"""What an Archive shows over HTTP besides the messages of the standard: files, pages, and how often they are read."""
