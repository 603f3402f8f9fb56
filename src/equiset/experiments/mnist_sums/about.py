"""What the report says about the MNIST sums, beside the numbers."""

PAPER = "Section 3.1, appendix B.1, figure 1"
CLAIMS = "M"
QUESTION = "Given the images of N digits as a set, what is the sum of the digits?"
READING = (
    "Models I and II see the images in a fixed order, side by side or as channels; III and IV see them as a set. "
    "Compare validation with training: where training is far ahead, a network has memorised its training sets. "
    "Compare both with the guess, which looks at no image.",
    "No image is in both a training and a validation set, unless the table says so for a variant. As in the paper, "
    "the best epoch is chosen on the sets that it is reported on, so it is optimistic; the last epoch is not.",
)
CAPTIONS = {
    "accuracy": "Accuracy of every model, beside what the paper's text says.",
    "figure1": "The paper's figure 1: validation accuracy by epoch for sets of three and of six digits. Lighter lines: "
    "running training accuracy, with dropout. Open marks: accuracy on the training sets after the last epoch, without "
    "dropout, as in the table.",
    "memorised": "What is memorised: accuracy by epoch on the training sets, on new sets of the same images, and on "
    "sets of other images, all without dropout. The first gap is what a network knows of its sets, the second what it "
    "knows of its images.",
    "dropout": "Model I on six digits under growing dropout: its curves, and how far its answers stray from the mean "
    "label. The narrower the outline, the more the network answers with values near the mean.",
}
