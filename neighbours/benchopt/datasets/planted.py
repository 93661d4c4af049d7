"""The paper's planted polynomials."""

from benchopt import BaseDataset

from polysharp.synthetic import make_sparse_polynomial


class Dataset(BaseDataset):
    """A law with five terms in three of the inputs, and noise."""

    name = "planted"
    requirements = ["pip::polysharp"]
    parameters = {"rows, inputs, degree": [(300, 8, 2), (60, 10, 3)], "seed": [0]}
    test_parameters = {"rows, inputs, degree": [(60, 5, 2)]}

    def get_data(self):
        """Draw the table."""
        data = make_sparse_polynomial(
            self.rows, self.inputs, self.degree, max_inputs=3, max_terms=5, random_state=self.seed
        )
        return {"X": data.X, "y": data.y, "degree": self.degree}
