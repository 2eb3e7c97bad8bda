"""The bodies of requests, which are checked against these models, and of answers, which the document describes with them."""
