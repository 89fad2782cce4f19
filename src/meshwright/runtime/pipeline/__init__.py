"""Slot orders, run: each rank's forwards, backwards and weight gradients in order, with their sends and receives."""
