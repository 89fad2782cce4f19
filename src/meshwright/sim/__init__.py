"""The event engine: tasks, resources and buffers; timelines, network flows, pipelines and failures."""
