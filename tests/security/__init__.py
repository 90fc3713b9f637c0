"""Hostile folders, files and names, given to every command."""
