"""Redshifts of galaxies from the clusters that they are in (section 5, figure 5)."""
