"""A GitHub on loopback: the part of it that the toolkit talks to, for what can't run here.

Git data is in real bare repositories. Every request and answer can be held against GitHub's published description
(:mod:`.contract`), and any request can be made to fail (:class:`Fault`).
"""

from tests.github_server.records import Dispatch, Fault, Record, graphql_limit
from tests.github_server.server import GitHubServer

__all__ = ["Dispatch", "Fault", "GitHubServer", "Record", "graphql_limit"]
