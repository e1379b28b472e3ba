"""From a declared message and a version to Python source that encodes and decodes it, at first use."""
