"""Classification of point clouds (section 3.2, appendix B.3)."""
