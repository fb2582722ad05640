"""Measuring the join: side by side with Spark's own, and against the bare kernel.

A case (`cases`) is a query and seeded data for it (`data`). Three sides run it, each in a process
of its own (`child`): ours, Spark's own stream-stream join, and the kernel without Spark, which is
the limit. What they report batch by batch becomes rates, percentiles and bounds (`measure`).
"""
