"""The join on simulated clusters: real tuples, policies and protocols; hardware and time are made.

`diffusion` asks the same routers as the Spark runtime and carries their plans out message by
message: `host` does what LD07 and PSP09 have a host do (`ring` for PSP), and `fusion` collects.
"""
