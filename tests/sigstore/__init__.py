"""A Sigstore of our own: an authority, logs and an issuer whose bundles the production code verifies."""
