"""Finding the face that does not belong to a set (section 4.1, appendix B.2, figures 4 and 6)."""
