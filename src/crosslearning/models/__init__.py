"""Models of tasks: how they move and pay, learned together, and what is imagined in them."""
