"""Training: a policy of our own, or with TensorFlow."""
