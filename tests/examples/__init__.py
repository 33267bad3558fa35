"""The applications of `examples/`, started as their README says, and asked as a user asks."""
