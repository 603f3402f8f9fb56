"""What the report says about the redshifts, beside the numbers."""

PAPER = "Section 5, figure 5"
CLAIMS = "R"
QUESTION = "How far away is each galaxy of a cluster, given the light of all of its members?"
READING = (
    "Scatter is the mean of |z − z_spec| / (1 + z_spec) over galaxies of test clusters whose redshift is known "
    "from a spectrum; smaller is better. The catalogue's own estimate is the redshift of the host cluster, and no "
    "network sees it. The perceptron sees one galaxy at a time, the set layers see the cluster.",
    "Intervals are over clusters, since the galaxies of one cluster err together. The difference from the catalogue is "
    "taken galaxy by galaxy: where its interval does not include zero, it is more than chance.",
)
CAPTIONS = {
    "scatter": "Scatter of every estimate, beside the paper's, with the measures that astronomers use.",
    "redshift_bins": "Scatter, and bias in parentheses, by spectroscopic redshift.",
    "figure5": "The paper's figure 5: a) sizes of clusters, b) spectra per cluster, c) the median error by redshift, "
    "with the band that holds two thirds of the galaxies, and d) estimated against spectroscopic redshift for the set "
    "layers, the perceptron and the catalogue.",
}
