"""Changes of groups' offsets by `ottla groups`: targets, plans with a preview, and undo files."""
