"""`ottla verify`: all files of directories that no broker has open, and which of them can be made anew."""
