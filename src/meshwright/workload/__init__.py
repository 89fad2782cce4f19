"""What each rank does, never how long: operators, messages, transfers, schedules and collectives."""
