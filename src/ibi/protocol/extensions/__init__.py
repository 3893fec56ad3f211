"""Our extensions of the standard: requests for changes, filters of holdings, what stays known of removed items."""
