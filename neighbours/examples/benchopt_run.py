"""``benchopt run`` on the benchmark of this repository: cost of the best subset, and seconds."""

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree

import pandas as pd

with tempfile.TemporaryDirectory() as place:
    folder = Path(place) / "benchmark"
    copytree(Path(__file__).parent.parent / "benchopt", folder)
    command = [sys.executable, "-m", "benchopt", "run", str(folder), "--no-plot", "--no-html"]
    subprocess.run([*command, "-r", "1"], check=True, capture_output=True)
    (file,) = (folder / "outputs").glob("*.parquet")
    rows = pd.read_parquet(file).round({"objective_value": 4})
for data, group in rows.groupby("dataset_name"):
    print(data)
    for _, row in group.sort_values(["objective_value", "solver_name"]).iterrows():
        cost, terms = row["objective_value"], row["objective_n_terms"]
        print(f"  {row['solver_name']:<50} cost {cost:.4f}, {terms:.0f} terms")
