"""Faults that need processes, threads or a poorer machine. Checked as every test is, see
tests/python/harness/plugin.py."""
from harness.plugin import *  # noqa: F403
