"""What the Python tests share: accounts of what is alive, time limits, loops to run on.

Imported by the conftest files of tests/python and tests/faults; holds no tests.
"""
