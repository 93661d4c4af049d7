"""Tables of rows: in memory, on a device, or in blocks on Dask."""
