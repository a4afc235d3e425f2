"""The declarations of all settings: built ones, ones to be built later, and ones without effect."""
