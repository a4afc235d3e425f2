"""JSON Web Tokens, by which clients of OAUTHBEARER say who they are."""
