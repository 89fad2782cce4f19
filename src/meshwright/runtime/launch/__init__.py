"""Processes of a run: started, joined, watched, and ended together; who held them up is named."""
