"""Schedules, one a file: the file name is the registry name. What a file holds is `workload.slots.Program`."""
