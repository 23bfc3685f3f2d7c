"""The examples as programs. Checked as every test is, see tests/python/harness/plugin.py: what a
test's own half leaves behind in this process counts."""
from harness.plugin import *  # noqa: F403
