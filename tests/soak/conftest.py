"""Long and large runs. Checked as every test is, see tests/python/harness/plugin.py."""
from harness.plugin import *  # noqa: F403
