"""Which upstream revision a release is made of, and what its tag says: select, check, record."""
