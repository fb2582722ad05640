"""The figures of the papers, made again on simulated clusters, and what they claim."""
