"""Full, slow and failing disks, no descriptors, cut networks."""
