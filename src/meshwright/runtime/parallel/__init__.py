"""What ranks say to each other: groups of the mesh, tensor-parallel functions, shards of state, sums of gradients."""
