"""One file a model family: a config's fields go in, a `Model` comes out. The file name is the `model_type`."""
