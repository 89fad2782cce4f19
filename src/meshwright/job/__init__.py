"""The third noun, `Job`: what to serve, train or reinforce, with its lengths and expert load."""
