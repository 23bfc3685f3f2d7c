"""Parts of bench/demo.py: the load's plan, the server process, the table, the chart."""
