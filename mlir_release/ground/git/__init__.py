"""git, by its command line: repositories, trees and work trees, shared caches, locks."""
