"""Rules of optimizer state, one a file; see `meshwright.job.optimizer`."""
