"""What the benchmarks share: placing on cores, paired statistics, tables and records.

A benchmark runs rivals in rounds, in shuffled order, each in a process of its own; what is compared
is always two values of the same round.
"""
