"""A release's way from its tag to publication: planned, drafted, uploaded, published, or given up."""
