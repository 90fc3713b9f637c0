"""Pictures. Their input is plain data; what must be computed is computed by the rooms below."""
