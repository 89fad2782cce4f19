"""The first noun, `Model`: layers, shapes, attention and expert structure, read from a `config.json`."""
