"""Who built a file: signatures by workflows (Sigstore), what they must say, and how they are made."""
