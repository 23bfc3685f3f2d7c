"""Every test here: ledger checked, limited in time, on every backend. See harness/plugin.py."""
from harness.plugin import *  # noqa: F403
