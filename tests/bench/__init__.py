"""Measurements to be run by hand; none of them is a test."""
