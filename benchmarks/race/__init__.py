"""The race: this library beside what a user would pick instead, on families of related tasks."""
