"""The upstream revision of a release and its tag: select, check, record."""
