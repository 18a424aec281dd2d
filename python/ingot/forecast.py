"""Forecasting tables of time series: pandas and polars frames, anything that speaks the Arrow PyCapsule interface, CSV.

Wide tables have a column of dates and one column for each series; long ones ``unique_id``, ``ds`` and ``y``.

>>> model = ingot.forecast.Forecaster("patchtst", horizon=24).fit(frame)
>>> model.predict(frame, levels=[80, 90])
"""

import datetime
import inspect
import io
import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import _core
from .config import keys
from .display import Page, Progress, Report
from .errors import InvalidConfig

if TYPE_CHECKING:
    from typing import Unpack

    from ._settings import ForecastAttributes, ForecastSettings  # pyright: ignore[reportMissingModuleSource] -- a stub alone
else:
    ForecastAttributes = object


def _table_of(table, encoding=None):
    """The table as the library reads it, and a function that reads a forecast's CSV text into the same kind of table; its other
    argument names the columns that were forecast."""
    if isinstance(table, (str, Path)):
        return _core._Table.load(str(table), encoding or ""), lambda text, _: _read_plain(text, [])
    module = type(table).__module__.split(".")[0]
    if module == "pandas":
        return _table_of_pandas(table)
    if isinstance(table, (list, tuple)) or module == "scipy" or (hasattr(table, "__array__") and not hasattr(table, "__arrow_c_stream__")):
        return _table_of_array(table)
    if module == "polars" and hasattr(table, "collect"):
        table = table.collect()
    if isinstance(table, dict):  # of lists
        columns = [(str(name), "text", [None if value is None else str(value) for value in values], 1, None) for name, values in table.items()]
        words = [str(name) for name, values in table.items() if all(value is None or isinstance(value, str) for value in values)]
        return _core._Table.of_columns(columns, "the frame"), lambda text, targets: _read_plain(text, [name for name in words if name not in targets])
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"{type(table).__name__} is not a table: give a frame of pandas, polars or anything with __arrow_c_stream__, an array, a dict of lists, or a file's path")
    given = _core._Table.of_arrow(table, "the frame", _offset_at)

    def read(text, targets):
        words = [name for name in given.text_columns if name not in targets]
        return _arrow_of(text, words, targets, table) if module == "pyarrow" else _read_plain(text, words, table)

    return given, read


@cache
def _zone(name):
    import zoneinfo

    return zoneinfo.ZoneInfo(name)


def _offset_at(zone, seconds):
    """How far a zone's clocks are ahead of UTC at a moment."""
    offset = datetime.datetime.fromtimestamp(seconds, _zone(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _table_of_pandas(table):
    import pandas

    dated = table.reset_index() if isinstance(table.index, pandas.DatetimeIndex) else table
    dated = dated.rename(columns={"index": "date"})
    columns = [_column_of_pandas(str(name), column) for name, column in dated.items()]
    return _core._Table.of_columns(columns, "the frame"), lambda text, _: _pandas_of(text, dated)


def _column_of_pandas(name, column):
    """(name, kind, values, units of moments, which values are missing or the zone's offsets), as the library takes columns."""
    import numpy
    import pandas

    zoned = isinstance(column.dtype, pandas.DatetimeTZDtype)
    kind = "M" if zoned else getattr(column.dtype, "kind", "")
    plain = isinstance(column.dtype, numpy.dtype)
    if kind == "M" and (plain or zoned):
        utc = column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column
        units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[numpy.datetime_data(utc.dtype)[0]]
        moments = numpy.ascontiguousarray(utc.to_numpy().view("int64"))
        if not zoned:
            return name, "moment", moments, units, None
        clocks = column.dt.tz_localize(None).to_numpy().view("int64")
        offsets = numpy.where(column.isna(), 0, clocks - moments) // units
        return name, "moment", moments, units, offsets.astype("int32")
    if kind == "b" and plain:
        return name, "truth", numpy.ascontiguousarray(column.to_numpy()), 1, None
    if kind in ("i", "u") and not (kind == "u" and (column.dropna() > numpy.iinfo("int64").max).any()):  # which text holds exactly
        missing = None if plain else numpy.ascontiguousarray(column.isna(), "bool")
        values = column.to_numpy("int64") if plain else column.to_numpy("int64", na_value=0)
        return name, "whole", numpy.ascontiguousarray(values), 1, missing
    if kind == "f":
        return name, "real", numpy.ascontiguousarray(column.to_numpy("float64", na_value=numpy.nan)), 1, None
    return name, "text", [None if gone else str(value) for value, gone in zip(column, column.isna(), strict=True)], 1, None


def _table_of_array(table):
    """Rows at equal distances, oldest first, [rows] or [rows, series], with days for dates."""
    import numpy

    if hasattr(table, "toarray"):
        raise TypeError("a sparse table is not a forecaster's: give it .toarray()")
    array = numpy.asarray(table, dtype=float)
    if array.ndim not in (1, 2) or len(array) < 2:
        raise ValueError(f"a table as an array is [rows] or [rows, series] with a history, not {array.shape}: n_samples={len(array)}")
    series = array.reshape(len(array), -1)
    days = 86400 * (10957 + numpy.arange(len(series), dtype="int64"))  # from 2000-01-01 on
    columns = [("date", "moment", days, 1, None)]
    columns += [(f"x{i}", "real", numpy.ascontiguousarray(series[:, i]), 1, None) for i in range(series.shape[1])]

    def read(text, _):
        rows = [line.split(",")[1:] for line in text.strip().split("\n")]
        wanted = [at for at, name in enumerate(rows[0]) if "-" not in name]
        made = numpy.array([[float(row[at]) for at in wanted] for row in rows[1:]])
        return made if array.ndim == 2 else made[:, 0]

    return _core._Table.of_columns(columns, "the array"), read


def _pandas_of(text, like):
    import pandas

    words = {name: str for name in like.columns if pandas.api.types.is_string_dtype(like[name])}
    result = pandas.read_csv(io.StringIO(text), dtype=words)
    for column in result.columns:
        if column in like.columns and pandas.api.types.is_datetime64_any_dtype(like[column]):
            result[column] = _dates_of_pandas(result[column], like[column].dtype)
    return result


def _dates_of_pandas(words, wanted):
    import numpy
    import pandas

    zone = getattr(wanted, "tz", None)
    if zone is None:
        return pandas.to_datetime(words).astype(wanted)
    if words.astype(str).str.contains(r":\d\d(?:Z|[+-]\d\d:?\d\d)$").all():
        return pandas.to_datetime(words, utc=True).dt.tz_convert(zone).astype(wanted)
    # Days of the zone's own clock, which are written without an offset.
    first = numpy.ones(len(words), bool)
    return pandas.to_datetime(words).dt.tz_localize(zone, ambiguous=first, nonexistent="shift_forward").astype(wanted)


@cache
def _parameters() -> dict[str, str]:
    """The key of each parameter and each other name of it, as the library's table has them."""
    names = {"from_": "from"}  # a word of Python's
    for key, row in keys("forecast").items():
        if key not in ("data", "from"):
            names.update(dict.fromkeys([key, *row["aliases"]], key))
    return names


def _parameter(name):
    known = _parameters()
    if name not in known:
        import difflib  # which an import of the package does without

        near = difflib.get_close_matches(name, known, 1)
        error = InvalidConfig(f"{name}: is not a setting of a forecast" + (f"; did you mean '{near[0]}'?" if near else ""))
        error.key = name
        raise error
    return "from_" if known[name] == "from" else known[name]


class Forecaster(ForecastAttributes):
    """A model that continues series.

    Args:
        model: ``"dlinear"``, ``"nlinear"``, ``"patchtst"``, ``"itransformer"``, ``"timesnet"``, ``"autoformer"``, ...
        horizon: rows to forecast.
        settings: every other key of a forecasting configuration: ``lookback``, ``epochs``, ``learning_rate``, ``target``,
            ``frequency``, ``scaler``, ``device``...; :func:`describe` tells about them. None: the model's default.

    Settings are attributes. :meth:`fit` reads a frame, an array or a CSV file; :meth:`predict` gives the same kind of frame
    back. As an estimator of scikit-learn it can be cloned, searched and pickled; what a fit finds ends with ``_``.
    """

    _fitted = None

    def __init__(self, model: str = "patchtst", horizon: int = 96, **settings: "Unpack[ForecastSettings]"):
        vars(self).update(dict.fromkeys(inspect.signature(Forecaster).parameters))
        self.set_params(model=model, horizon=horizon, **settings)

    @property
    def _settings(self):
        given = {name: value for name, value in self.get_params().items() if value is not None}
        return json.dumps({_parameters()[name]: value for name, value in given.items()}, default=str)

    @classmethod
    def load(cls, directory, device="auto"):
        """Opens what :meth:`save` or ``ingot forecast fit`` wrote, or a PatchTST checkpoint of transformers."""
        fitted = _core._Forecaster.load(str(directory), device)
        settings = json.loads(fitted.settings())
        result = cls(**{name: value for name, value in settings.items() if name in _parameters() and name != "from"})
        result._fitted = fitted
        return result

    def save(self, directory):
        """Writes the model: the directory appears whole or not at all."""
        self._model().save(str(directory))

    def _model(self):
        if self._fitted is None:
            raise _not_fitted()
        return self._fitted

    def fit(self, table, y=None, *, on_step=None, progress: bool | None = None):
        """Fits to a table. ``on_step(done, total, loss)`` is called after every step. Returns self. ``progress``: a bar in
        notebooks alone (None), on stderr too (True), nowhere (False).

        ``y``: nothing; scikit-learn gives it to every estimator.
        """
        given, _ = _table_of(table, vars(self)["encoding"])
        with Progress(0, "Fitting", progress) as bar:

            def step(done, total, loss):
                bar.update(done, f"loss {loss:.4g}", total)
                if on_step is not None:
                    on_step(done, total, loss)

            self._fitted = _core._fit_forecaster(self._settings, given, step)
        self.n_features_in_ = len(self._fitted.columns)
        return self

    def predict(self, table, levels=None):
        """Continues every series behind its last row: the dates, then NAME, NAME-lo-90 and NAME-hi-90 for each target.

        ``levels``: per cent of the intervals; the usual ones (80 and 90, as far as the data tells them) by default.
        Returns a pandas frame for a pandas frame and a pyarrow table for one of pyarrow, else a polars frame where that is
        installed, else a dict of lists.
        """
        model = self._model()
        given, read = _table_of(table, vars(self)["encoding"])
        result = model.predict(given, model.usual_levels() if levels is None else list(levels))
        return read(result, {*model.targets, "y"})

    def evaluate(self, table, *, stride=1, season=0):
        """Errors on the test part of the table from rolling origins, beside naive forecasts: ``methods`` with mse, mae,
        mase, smape and coverage."""
        given, _ = _table_of(table, vars(self)["encoding"])
        return Report(self._model().evaluate(given, stride, season))

    def plot(self, table, *, hold_out=0, level=None):
        """A page of every series with its forecast and an interval (``level`` per cent), shown in a notebook.

        ``hold_out``: so many of the last rows are forecast, and what really came is drawn over the forecast.
        """
        given, _ = _table_of(table, vars(self)["encoding"])
        return Page(self._model().plot(given, hold_out, level))

    def cross_validate(self, table, *, folds=3, test_rows=0, stride=1):
        """Fits anew before each of ``folds`` origins and forecasts the rows behind it: ``folds`` and their ``mean``."""
        given, _ = _table_of(table, vars(self)["encoding"])
        return Report(_core._cross_validate(self._settings, given, folds, test_rows, stride))

    @property
    def targets_(self):
        """The columns that are forecast."""
        return self._model().targets

    @property
    def epochs_(self):
        """A dict for each pass over the training windows: losses, learning rate, seconds."""
        return self._model().epochs()

    def get_params(self, deep=True):
        """The settings, None where they are the model's; as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in inspect.signature(Forecaster).parameters}

    def set_params(self, **params):
        """Changes settings, as scikit-learn does; fit again."""
        for name, value in params.items():
            setattr(self, _parameter(name), value)
        return self

    def __repr__(self):
        given = {name: value for name, value in self.get_params().items() if value is not None}
        return f"Forecaster({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __sklearn_is_fitted__(self):
        return self._fitted is not None

    def __sklearn_tags__(self):
        from sklearn.utils import InputTags, Tags, TargetTags

        # Rows are a series in time, not samples: what shuffles rows or drops some is not for it.
        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(), no_validation=True
        )

    def __getstate__(self):
        state = vars(self).copy()
        if state.pop("_fitted", None) is not None:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                self.save(Path(folder) / "model")
                state["_files"] = {file.name: file.read_bytes() for file in (Path(folder) / "model").iterdir()}
        return state

    def __setstate__(self, state):
        files = state.pop("_files", None)
        vars(self).update(state)
        if files is not None:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                for name, content in files.items():
                    (Path(folder) / name).write_bytes(content)
                self._fitted = _core._Forecaster.load(folder, str(state.get("device") or "auto"))


def _signature():
    """Every setting as a parameter, for completion and for scikit-learn."""
    first = {"model": "patchtst", "horizon": 96}
    names = [*first, *(name for name in dict.fromkeys(_parameters().values()) if name not in first and name != "from"), "from_"]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind, default=first.get(name)) for name in names])


setattr(Forecaster, "__signature__", _signature())  # noqa: B010 -- as type checkers want it
_self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
setattr(Forecaster.__init__, "__signature__", inspect.Signature([_self, *_signature().parameters.values()]))  # noqa: B010


def describe(setting: str) -> str:
    """What a setting may be, its default and its meaning."""
    row = keys("forecast")[_parameters()[_parameter(setting)]]
    return f"{row['key']}: {row['kind']}; default {row['default'] or 'none'}\n    {row['doc']}"


def _not_fitted():
    message = "the forecaster is not fitted: call fit(table) first"
    if "sklearn" not in sys.modules:
        return RuntimeError(message)
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)


def _read_plain(text, words, like=None):
    """As a polars frame whose dates have the types of those of `like`; without polars a dict of lists. `words` are columns that
    stay text, as ids that look like numbers."""
    try:
        import polars
    except ImportError:
        import csv

        rows = list(csv.DictReader(io.StringIO(text)))
        names = list(rows[0]) if rows else []
        return {name: (list if name in words else _numbers)([row[name] for row in rows]) for name in names}
    types = dict(like.schema) if isinstance(like, polars.DataFrame) else {}
    result = polars.read_csv(io.StringIO(text), try_parse_dates=True, schema_overrides=dict.fromkeys(words, polars.String))
    for name in result.columns:
        kind, wanted = result.schema[name], types.get(name)
        if wanted in (None, kind):
            continue
        column = polars.col(name)
        if kind.is_temporal() and wanted.is_temporal():
            zone = getattr(wanted, "time_zone", None)
            if zone is not None and getattr(kind, "time_zone", None) is None:  # days of the zone's own clock
                column = column.cast(polars.Datetime("us")).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            result = result.with_columns(column.cast(wanted))
        elif name in words and wanted == polars.UInt64:
            result = result.with_columns(column.cast(wanted))
    return result


def _arrow_of(text, words, targets, like):
    """As a pyarrow table whose columns have the types of those of `like`; what was forecast is float64."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    types = {field.name: field.type for field in like.schema if field.name not in targets}
    dated = [name for name, kind in types.items() if pyarrow.types.is_temporal(kind)]
    options = arrow_csv.ConvertOptions(column_types=dict.fromkeys([*words, *dated], pyarrow.string()) | dict.fromkeys(targets, pyarrow.float64()))
    parsing = arrow_csv.ParseOptions(newlines_in_values=True)
    result = arrow_csv.read_csv(pyarrow.BufferReader(text.encode()), parse_options=parsing, convert_options=options)
    for at, name in enumerate(result.column_names):
        column, wanted = result.column(at), types.get(name)
        if name in dated:
            column = pyarrow.chunked_array([[_date(word, wanted) for word in column.to_pylist()]], wanted)
        elif wanted is not None and pyarrow.types.is_dictionary(wanted):
            column = _dictionary(column, wanted)
        elif wanted is not None:
            column = column.cast(wanted)
        result = result.set_column(at, name, column)
    return result


def _dictionary(column, kind):
    """A column in an Arrow type with a dictionary, whose indices have a type of their own."""
    import pyarrow

    chunks = [
        pyarrow.DictionaryArray.from_arrays(chunk.indices.cast(kind.index_type), chunk.dictionary, ordered=kind.ordered)
        for chunk in column.cast(kind.value_type).dictionary_encode().chunks
    ]
    return pyarrow.chunked_array(chunks, kind)


def _date(word, kind):
    """A moment as Python has it, in the zone of an Arrow type; of days, at the zone's own midnight."""
    moment = datetime.datetime.fromisoformat(word)
    if not hasattr(kind, "tz"):
        return moment.date()
    return moment.replace(tzinfo=_zone(kind.tz)) if kind.tz is not None and moment.tzinfo is None else moment


def _numbers(words):
    """Whole numbers or floats where all are, else the words."""
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            continue
    return words
