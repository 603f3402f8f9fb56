"""What the paper says of the layers themselves (section 2, appendix B.3), measured on generated sets, on CPU.

- `settings`: what the config may say about each measurement;
- `measurements`: the measurements (`MEASUREMENTS`), with torch;
- `measures`: their tables as numbers with intervals (`number_layers`), without torch.

Measurements whose names begin with `time_` are of processor time: they differ from run to run, all others do not.
"""
