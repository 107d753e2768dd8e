"""Clusters to rent for one campaign: what they would cost, the files that the providers' own tools
read, and how far they are."""
