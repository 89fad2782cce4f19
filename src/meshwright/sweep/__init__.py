"""Many evaluations at once: studies, and the workers that run them."""
