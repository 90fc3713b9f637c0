"""What every package rests on: files, statistics, compiled entry points, progress."""
