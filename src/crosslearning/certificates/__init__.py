"""Certificates: what can be said in numbers about a trained family."""
