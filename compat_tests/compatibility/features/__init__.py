"""The rows of the page by sections: one scenario each, written once for all clients."""
