"""Many items at once: from files and from other repositories."""
