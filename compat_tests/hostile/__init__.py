"""Bad input for both brokers, as data: frames, requests and bodies that no client sends."""
