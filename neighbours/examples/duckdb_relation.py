"""A fit to the result of a query, and the formula back in the database."""

import duckdb
import numpy as np

from polysharp import SparsePolynomialRegressor
from polysharp.datasets import cycling

data = cycling()
connection = duckdb.connect()
table = {name: data.X[:, i] for i, name in enumerate(data.input_names)} | {"power": data.y}
columns = ", ".join(f'"{name}" DOUBLE' for name in table)
connection.execute(f"CREATE TABLE rides ({columns})")
rows = np.column_stack(list(table.values())).tolist()
connection.executemany(f"INSERT INTO rides VALUES ({', '.join('?' * len(table))})", rows)

flat = "FROM rides WHERE abs(slope) < 0.02"
X = connection.sql(f"SELECT speed, mass, slope, headwind {flat}")
y = connection.sql(f"SELECT power {flat}").fetchnumpy()["power"]
model = SparsePolynomialRegressor(3, 4, gamma=1.0).fit(X, y)
print(model.polynomial_)
query = model.polynomial_.to_sql("rides").replace("SELECT ", "SELECT power AS measured, ", 1)
print(connection.sql(f"SELECT round(sqrt(avg((measured - y)^2)), 2) AS rmse FROM ({query})"))
