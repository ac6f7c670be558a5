"""The comparison: pairs, windows, statistics, verdict, report, gate.

It reads the store through a clickhouse-connect client that the caller gives, and knows of the
other parts the column names in `queries/*.sql` and nothing else.
"""
