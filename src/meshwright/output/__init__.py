"""Results as tables, JSON, SVG, HTML, traces, and the launch files of engines."""
