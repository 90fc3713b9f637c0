"""Cross-learned models: learn how the tasks move, then learn the policies in what was learned."""
