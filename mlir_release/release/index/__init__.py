"""The static pages that pip and people read, generated from the published manifests."""
