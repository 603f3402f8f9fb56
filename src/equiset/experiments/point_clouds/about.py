"""What the report says about the point clouds, beside the numbers."""

PAPER = "Section 3.2, appendix B.3, table 1, figures 2 and 3"
CLAIMS = "P"
QUESTION = "Which of 40 kinds of object is this, given some points of its surface as a set?"
READING = (
    "Rows of table 1 differ in the number of particles and in the layers before the pooling. The number after ± is the "
    "spread over draws of test particles, as in the paper, and over trainings; each has a column of its own. "
    "Quoted rows are other people's results on ModelNet40 and were not measured here.",
    "Ablations are compared with the network of table 1 that they change. At smaller scales, networks are narrower and "
    "clouds thinner than the names of the variants say; the table has the sizes that were used.",
)
CAPTIONS = {
    "table1": "The paper's table 1: accuracy on the test meshes, the paper's value beside ours.",
    "ablations": "Other layers, fewer channels and more dropout, against the same network as in table 1.",
    "later_networks": "PointNet and the Set Transformer, trained here on the same clouds as the set layers, and what "
    "choosing the best test epoch would have reported.",
    "figure2": "The paper's figure 2: two clouds for each of eight classes, coloured by height, with their projections "
    "onto three planes.",
    "figure3": "The paper's figure 3: clouds that maximise the mean activation of single units of the first and of the "
    "second layer, each from two sides, coloured by height. Only units that became active are shown.",
    "winners": "Which points decide: test clouds of the network set-1000, with the points in colour that win a channel "
    "of the pooled maximum, darker and larger the more of them. Points in grey win none (`SetEncoder.winners`).",
    "robustness": "Accuracy of trained networks on test clouds with other numbers of particles, turned about the "
    "vertical axis, or scaled, with 95 % intervals.",
}
