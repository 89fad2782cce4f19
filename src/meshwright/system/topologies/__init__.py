"""One builder of a network a file: a checked `Spec` goes in, a `Fabric` comes out. The file name is its name.

A module has `TITLE`, a line for lists; `EXAMPLE`, a spec as one types it; `HEAD`, the field that the word after the
colon fills; `Spec`, a frozen dataclass of the fields that a spec may set; and `build(spec) -> Fabric`.
"""
