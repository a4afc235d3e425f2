"""What `--secure` and the test fixture make: an authority, certificates and files for clients."""
