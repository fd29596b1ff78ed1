"""Conversations and arrivals: from files or generated, to the trace of one fleet.

`fleets.Fleets` is the door; `readers.read_conversations` and `calibrate.calibrate_workload` stand
behind it.
"""
