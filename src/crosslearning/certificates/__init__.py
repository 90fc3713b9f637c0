"""What can be said about a trained family, in numbers."""
