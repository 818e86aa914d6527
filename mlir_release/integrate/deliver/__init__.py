"""What a walk leaves for people: branches, pull requests, reports, pictures, messages."""
