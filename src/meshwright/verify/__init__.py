"""What was predicted beside what was measured."""
