"""Forecasting tables of time series: pandas and polars frames, anything that speaks the Arrow PyCapsule interface, CSV.

Wide tables have a column of dates and one column for each series; long ones ``unique_id``, ``ds`` and ``y``.

>>> model = ingot.forecast.Forecaster("patchtst", horizon=24).fit(frame)
>>> model.predict(frame, levels=[80, 90])
"""

import io
import json
from pathlib import Path

from . import _core


def _csv_of(table):
    """The table as CSV text, with a name for messages, and a function that reads CSV text into the same kind of table."""
    if isinstance(table, (str, Path)):
        return Path(table).read_text(encoding="utf-8-sig"), str(table), None
    module = type(table).__module__.split(".")[0]
    if module == "pandas":
        import pandas

        dated = table.reset_index() if isinstance(table.index, pandas.DatetimeIndex) else table
        dated = dated.rename(columns={"index": "date"})
        return dated.to_csv(index=False), "the frame", lambda text: _pandas_of(text, dated)
    import polars

    frame = table.collect() if isinstance(table, polars.LazyFrame) else polars.DataFrame(table)
    return frame.write_csv(), "the frame", lambda text: polars.read_csv(io.StringIO(text), try_parse_dates=True)


def _pandas_of(text, like):
    import pandas

    result = pandas.read_csv(io.StringIO(text))
    for column in result.columns:
        if column in like.columns and pandas.api.types.is_datetime64_any_dtype(like[column]):
            result[column] = pandas.to_datetime(result[column])
    return result


class Forecaster:
    """A model that continues series.

    Args:
        model: ``"dlinear"``, ``"nlinear"``, ``"patchtst"``, ``"itransformer"``, ``"timesnet"``, ``"autoformer"``, ...
        horizon: rows to forecast.
        settings: every other key of a forecasting configuration: ``lookback``, ``epochs``, ``learning_rate``, ``target``,
            ``frequency``, ``scaler``, ``device``...

    :meth:`fit` reads a frame or a CSV file; :meth:`predict` gives the same kind of frame back.
    """

    def __init__(self, model="patchtst", horizon=96, **settings):
        self._settings = {"model": model, "horizon": horizon, **settings}
        self._fitted = None

    @classmethod
    def load(cls, directory, device="auto"):
        """Opens what :meth:`save` or ``ingot forecast fit`` wrote, or a PatchTST checkpoint of transformers."""
        result = cls.__new__(cls)
        result._fitted = _core._Forecaster.load(str(directory), device)
        result._settings = json.loads(result._fitted.settings())
        return result

    def save(self, directory):
        """Writes the model: the directory appears whole or not at all."""
        self._model().save(str(directory))

    def _model(self):
        if self._fitted is None:
            raise RuntimeError("the forecaster is not fitted: call fit(table) first")
        return self._fitted

    def fit(self, table, *, on_step=None):
        """Fits to a table. ``on_step(done, total, loss)`` is called after every step. Returns self."""
        text, name, _ = _csv_of(table)
        self._fitted = _core._fit_forecaster(json.dumps(self._settings, default=str), text, name, on_step)
        return self

    def predict(self, table, levels=None):
        """Continues every series behind its last row: the dates, then NAME, NAME-lo-90 and NAME-hi-90 for each target.

        ``levels``: per cent of the intervals; the usual ones (80 and 90, as far as the data tells them) by default.
        Returns a pandas frame for a pandas frame, else a polars frame where that is installed, else a dict of lists.
        """
        model = self._model()
        text, name, read = _csv_of(table)
        result = model.predict(text, name, model.usual_levels() if levels is None else list(levels))
        return (read or _read_plain)(result)

    def evaluate(self, table, *, stride=1, season=0):
        """Errors on the test part of the table from rolling origins, beside naive forecasts: ``methods`` with mse, mae,
        mase, smape and coverage."""
        text, name, _ = _csv_of(table)
        return self._model().evaluate(text, name, stride, season)

    def cross_validate(self, table, *, folds=3, test_rows=0, stride=1):
        """Fits anew before each of ``folds`` origins and forecasts the rows behind it: ``folds`` and their ``mean``."""
        text, name, _ = _csv_of(table)
        return _core._cross_validate(json.dumps(self._settings, default=str), text, name, folds, test_rows, stride)

    @property
    def horizon(self):
        """Rows that are forecast."""
        return self._model().horizon

    @property
    def targets(self):
        """The columns that are forecast."""
        return self._model().targets

    @property
    def epochs(self):
        """A dict for each pass over the training windows: losses, learning rate, seconds."""
        return self._model().epochs()

    def get_params(self, deep=True):
        """The settings, as scikit-learn asks for them."""
        return dict(self._settings)

    def set_params(self, **params):
        """Changes settings, as scikit-learn does; fit again."""
        self._settings.update(params)
        return self


def _read_plain(text):
    try:
        import polars

        return polars.read_csv(io.StringIO(text), try_parse_dates=True)
    except ImportError:
        import csv

        rows = list(csv.DictReader(io.StringIO(text)))
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
