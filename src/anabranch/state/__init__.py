"""What survives: immutable segments, and one manifest a batch that says which of them are live."""
