"""The second noun, `System`: accelerators, links, topologies, engines and their calibrations."""
