"""The cells of ./dev bench loops.

table.py lists them with their bars; the other modules say how each is measured. What runs on a loop
runs in a process of its own: worker.py for what needs no client, server.py under a load.
"""
