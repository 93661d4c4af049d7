"""The page of ``polysharp serve``: what it works on, and the server that shows it."""
