"""One file per API key; a handler is a plain function and knows no other handler."""
