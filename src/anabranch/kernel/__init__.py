"""Finding the rows that match: one kernel per kind of term, and the m-way probe over them."""
