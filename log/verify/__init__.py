"""`ottla verify`: checks all files of closed log directories, and rebuilds files from the batches."""
