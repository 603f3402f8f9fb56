"""Predicting the sum of MNIST digits (section 3.1, appendix B.1, figure 1)."""
