"""Real programs on ringloop. Checked as every test is, see tests/python/harness/plugin.py: what a
program's client half leaves behind in this process counts."""
from harness.plugin import *  # noqa: F403
