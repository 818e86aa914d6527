"""What a draft has and lacks, whether a release is what was signed, and the state of all."""
