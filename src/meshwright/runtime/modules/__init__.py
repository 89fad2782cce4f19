"""Decoders, small and readable: a `Model` and its arithmetic become torch modules, whole or one pipeline stage."""
