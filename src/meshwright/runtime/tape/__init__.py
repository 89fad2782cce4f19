"""What one rank of a real run holds, computes and sends, recorded: off it costs nothing, on it sees every operator."""
