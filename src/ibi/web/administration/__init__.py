"""What pages of the administration show: the form of an item and its review, an identity, words of operations."""
