"""CPythons, platforms and requirements; environments, and what is installed into them."""
