"""Python scenarios over the simulated kernel: what they are made of, and the harness for them.

Needs an extension module built with RINGLOOP_TEST_BACKEND; wheels have none.
"""
