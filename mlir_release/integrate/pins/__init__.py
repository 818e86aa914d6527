"""Where upstreams are pinned: found, written, kept in step with what follows from them."""
