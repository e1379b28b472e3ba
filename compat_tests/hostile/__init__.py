"""Bad input for both, as data: frames, requests and bodies that no client sends."""
