"""The fourth noun, `Layout`: mesh axes, the column table of layouts, and who owns which slice of every tensor."""
