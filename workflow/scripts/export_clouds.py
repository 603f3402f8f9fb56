"""Write the clouds of all meshes as one HDF5 file."""

from pathlib import Path

from equiset.data.modelnet40.export import write_hdf5
from equiset.errors import one_line_errors

with one_line_errors(snakemake.log[0]):
    write_hdf5(Path(snakemake.input.store).parent, Path(snakemake.output.file))
