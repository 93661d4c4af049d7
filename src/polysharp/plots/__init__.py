"""Pictures of a model, of its proof and of the choice between models, with matplotlib.

Every picture comes twice: as a display object in scikit-learn's manner, made by
``from_estimator`` (or from what it shows) and drawn by ``plot``, which sets ``ax_`` and
``figure_``; and, for the common ones, as a function that draws and returns the axes.
Matplotlib is imported when a picture is drawn and not before (``pip install polysharp[plots]``).
"""

from polysharp.plots.model_plots import (
    GapDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    RankingDisplay,
    ResidualDisplay,
    ResponseDisplay,
    SurfaceDisplay,
    plot_gap,
    plot_predictions,
    plot_residuals,
)
from polysharp.plots.path_plots import PathDisplay, plot_path

__all__ = [
    "GapDisplay",
    "ImportanceDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "RankingDisplay",
    "ResidualDisplay",
    "ResponseDisplay",
    "SurfaceDisplay",
    "plot_gap",
    "plot_path",
    "plot_predictions",
    "plot_residuals",
]
