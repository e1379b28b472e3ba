"""The rows of the page, by sections: a scenario each, written once for all clients."""
