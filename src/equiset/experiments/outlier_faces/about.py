"""What the report says about the outlier faces, beside the numbers."""

PAPER = "Section 4.1, appendix B.2, figures 4 and 6"
CLAIMS = "F"
QUESTION = "All faces but one share two attributes, which nobody names. Which one is it?"
READING = (
    "Guessing finds the outlier in one of N sets. The baseline pools over the set before it answers, so it cannot know "
    "where the outlier stands, and should do no better than a guess. No person is in both training and test sets.",
    "With sigmoids, a set may have any number of outliers, and an answer is right only if it is right about every "
    "member; that row is not comparable with the others.",
)
CAPTIONS = {
    "accuracy": "How often each network finds the outlier, beside the paper's values and the guess.",
    "pairs": "The same for the set layer, by attribute: what makes an outlier easy or hard to see.",
    "several": "Sets with any number of outliers, by that number.",
    "figure4": "The paper's figure 4: test sets, the first ones and not chosen. The outlier is framed in red; the blue "
    "bar under a face is how probable the network finds it, a triangle its choice. At the right, the attributes that "
    "the others share, and whether the outlier was found.",
    "figure6": "The paper's figure 6: more test sets, as above.",
    "curves": "Accuracy and loss by epoch. The training of the set layer is shown with its dropout.",
    "calibration": "Of the faces that were given some probability of being the outlier, the share that is one: on the "
    "dotted line, probabilities mean what they say. At the right, how many faces each point stands for.",
}
