"""What the user asked for, as plain frozen data: streams, terms and the compiled query."""
