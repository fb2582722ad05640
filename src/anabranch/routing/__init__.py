"""Which host keeps and joins what. Decisions on plain data; a runtime carries them out."""
