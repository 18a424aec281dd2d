"""Tables of every kind that a forecaster takes: the same numbers, the same types back."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ingot


def frame(rows=240, every="1h"):
    times = pd.date_range("2024-03-20", periods=rows, freq=every)
    step = np.arange(rows)
    return pd.DataFrame({"date": times, "load": np.sin(step / 4) + 10, "day": step % 7})


def forecast(table):
    settings = {"horizon": 6, "lookback": 24, "epochs": 1, "device": "cpu"}
    return ingot.forecast.Forecaster("dlinear", **settings).fit(table).predict(table, levels=[])


class Stream:
    """Nothing but the Arrow PyCapsule interface."""

    def __init__(self, of):
        self.__arrow_c_stream__ = of.__arrow_c_stream__


def polars_frames():
    whole = pl.from_pandas(frame())
    yield "polars", whole
    yield "lazy", whole.lazy()
    yield "several chunks", pl.concat([whole[:100], whole[100:]], rechunk=False)
    yield "a slice", pl.concat([whole[:50], whole])[50:]
    yield "small numbers", whole.with_columns(pl.col("day").cast(pl.UInt8))
    yield "decimals", whole.with_columns(pl.col("day").cast(pl.Decimal(10, 2)))
    yield "milliseconds", whole.with_columns(pl.col("date").cast(pl.Datetime("ms")))
    yield "dates as text", whole.with_columns(pl.col("date").dt.to_string("%Y-%m-%d %H:%M"))
    yield "any stream", Stream(whole)
    yield "a dict", {name: frame()[name].to_list() for name in frame()}


@pytest.mark.parametrize(("kind", "table"), [pytest.param(*case, id=case[0]) for case in polars_frames()])
def test_columns_of_every_type_give_the_numbers_of_the_csv_file(kind, table, tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    expected = forecast(tmp_path / "t.csv")
    got = forecast(table)
    np.testing.assert_array_equal(np.asarray(got["load"]), np.asarray(expected["load"]))
    np.testing.assert_array_equal(np.asarray(got["day"]), np.asarray(expected["day"]))


def test_pyarrows_tables_and_batches_are_continued():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(frame(), preserve_index=False)
    expected = forecast(frame())["load"].to_numpy()
    np.testing.assert_array_equal(np.asarray(forecast(table)["load"]), expected)
    np.testing.assert_array_equal(np.asarray(forecast(pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7)).read_all())["load"]), expected)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_pyarrows_tables_come_back_with_their_types(unit, zone):
    pyarrow = pytest.importorskip("pyarrow")
    kind = pyarrow.timestamp(unit, zone)
    table = pyarrow.table({"date": pyarrow.array(list(frame()["date"])).cast(pyarrow.timestamp("us")), "load": frame()["load"], "day": frame()["day"]})
    table = table.set_column(0, "date", table["date"].cast(pyarrow.timestamp(unit)).cast(kind))
    result = forecast(table)
    assert isinstance(result, pyarrow.Table) and result.schema.field("date").type == kind
    assert result["date"].to_pylist()[0] - table["date"].to_pylist()[-1] == pd.Timedelta(hours=1)
    np.testing.assert_array_equal(np.asarray(result["load"]), forecast(pl.from_arrow(table))["load"].to_numpy())
    batch = forecast(table.to_batches()[0])
    assert isinstance(batch, pyarrow.Table) and batch["load"].to_pylist() == result["load"].to_pylist()


def test_pyarrows_days_and_ids_come_back_with_their_types():
    pyarrow = pytest.importorskip("pyarrow")
    days = pyarrow.Table.from_pandas(frame(every="1D"), preserve_index=False)
    days = days.set_column(0, "date", days["date"].cast(pyarrow.date32()))
    result = forecast(days)
    assert result.schema.field("date").type == pyarrow.date32()
    assert (result["date"].to_pylist()[0] - days["date"].to_pylist()[-1]).days == 1
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    for ids, kind in (({"load": "007", "day": "1"}, pyarrow.string()), ({"load": "a", "day": "b"}, pyarrow.large_string()), ({"load": 7, "day": 1}, pyarrow.int32())):
        table = pyarrow.Table.from_pandas(long.assign(unique_id=long["unique_id"].map(ids)), preserve_index=False)
        at = table.column_names.index("unique_id")
        result = forecast(table.set_column(at, "unique_id", table["unique_id"].cast(kind)))
        assert result.schema.field("unique_id").type == kind
        assert list(dict.fromkeys(result["unique_id"].to_pylist())) == list(ids.values())
        assert result.schema.field("y").type == pyarrow.float64()


def test_pyarrows_dictionaries_and_ids_of_two_lines_come_back_as_they_were():
    pyarrow = pytest.importorskip("pyarrow")
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    ids = {"load": "of two\nlines", "day": 'a, "quoted"'}
    table = pyarrow.Table.from_pandas(long.assign(unique_id=long["unique_id"].map(ids)), preserve_index=False)
    at = table.column_names.index("unique_id")
    for kind in (pyarrow.string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), pyarrow.dictionary(pyarrow.int64(), pyarrow.large_string())):
        words = table["unique_id"].combine_chunks()
        if pyarrow.types.is_dictionary(kind):
            encoded = words.cast(kind.value_type).dictionary_encode()
            column = pyarrow.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
        else:
            column = words.cast(kind)
        result = forecast(table.set_column(at, "unique_id", column))
        assert result.schema.field("unique_id").type == kind
        assert list(dict.fromkeys(result["unique_id"].to_pylist())) == list(ids.values())


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("us", "UTC"), pl.Datetime("us", "Europe/Berlin")])
def test_dates_come_back_in_the_type_they_had(kind):
    every = "1D" if kind == pl.Date else "1h"
    table = pl.from_pandas(frame(every=every))
    dates = table["date"].dt.replace_time_zone("UTC") if getattr(kind, "time_zone", None) else table["date"]
    result = forecast(table.with_columns(dates.cast(kind)))
    assert result["date"].dtype == kind
    assert result["date"][0] == (dates[-1] + (dates[1] - dates[0])) if kind != pl.Date else result["date"][0] > dates[-1].date()


@pytest.mark.parametrize("start", ["2024-03-20 12:00", "2024-03-21 22:00"], ids=["in winter", "over the change"])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_dates_of_a_zone_come_back_in_pandas_and_polars(start, unit, recwarn):
    table = frame()
    hours = pd.date_range(start, periods=len(table), freq="1h", tz="Europe/Berlin", unit=unit)
    table["date"] = hours
    expected = [hours[-1] + pd.Timedelta(hours=i + 1) for i in range(6)]
    result = forecast(table)
    assert result["date"].dtype == table["date"].dtype and list(result["date"]) == expected
    of_polars = forecast(pl.from_pandas(table))
    assert of_polars["date"].dtype == pl.Datetime(unit, "Europe/Berlin") and of_polars["date"].to_list() == expected
    assert not [warning for warning in recwarn if warning.category is FutureWarning]


@pytest.mark.parametrize("start", ["2023-01-01", "2023-08-20"], ids=["in summer", "over the change"])
def test_days_of_a_zone_begin_at_its_midnights(start):
    table = frame()
    table["date"] = pd.date_range(start, periods=len(table), freq="1D", tz="Europe/Berlin")
    expected = list(pd.date_range(table["date"].iloc[-1], periods=7, freq="1D"))[1:]
    result = forecast(table)
    assert result["date"].dtype == table["date"].dtype and list(result["date"]) == expected
    of_polars = forecast(pl.from_pandas(table))["date"]
    assert of_polars.dtype.time_zone == "Europe/Berlin" and of_polars.to_list() == expected


def test_clocks_of_a_zone_that_go_forward_leave_no_gap():
    hours = pl.from_pandas(frame(24 * 30))  # over the last Sunday of March
    table = hours.with_columns(pl.col("date").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"))
    np.testing.assert_array_equal(forecast(table)["load"].to_numpy(), forecast(hours)["load"].to_numpy())


@pytest.mark.parametrize("ids", [{"load": "007", "day": "1"}, {"load": "a b", "day": "c"}, {"load": 7, "day": 1}])
def test_ids_come_back_as_they_were(ids):
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    long["unique_id"] = long["unique_id"].map(ids)
    for table in (long, pl.from_pandas(long)):
        assert list(dict.fromkeys(forecast(table)["unique_id"])) == list(ids.values())


@pytest.mark.parametrize("ids", [(2**53, 2**53 + 1), (2**63 + 1, 2**63 + 2)], ids=["above 2^53", "above 2^63"])
@pytest.mark.parametrize("kind", ["numpy", "nullable", "arrow", "polars", "pyarrow"])
def test_ids_of_64_bits_keep_every_digit(kind, ids):
    pyarrow = pytest.importorskip("pyarrow")
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    dtype = "uint64" if ids[0] > 2**63 else "int64"
    long["unique_id"] = long["unique_id"].map({"load": ids[0], "day": ids[1]}).astype(dtype)
    if kind == "nullable":
        long["unique_id"] = long["unique_id"].astype(dtype.replace("i", "I").replace("u", "U"))
    if kind == "arrow":
        long["unique_id"] = long["unique_id"].astype(f"{dtype}[pyarrow]")
    table = {"polars": pl.from_pandas, "pyarrow": lambda t: pyarrow.Table.from_pandas(t, preserve_index=False)}.get(kind, lambda t: t)(long)
    result = forecast(table)
    assert list(dict.fromkeys(int(name) for name in result["unique_id"])) == list(ids)
    if kind == "polars":
        assert result["unique_id"].dtype == table["unique_id"].dtype


def test_nullable_numbers_of_pandas_are_whole_with_missing_ones():
    ids = [2**53, 2**53 + 1, None]
    column = pd.Series(ids, dtype="Int64")
    name, kind, values, _, missing = ingot.forecast._column_of_pandas("id", column)
    assert (name, kind, missing.tolist()) == ("id", "whole", [False, False, True])
    assert values[:2].tolist() == ids[:2]
    assert ingot.forecast._column_of_pandas("id", pd.Series([2**63, None], dtype="UInt64"))[1:3] == ("text", [str(2**63), None])
    assert ingot.forecast._column_of_pandas("id", pd.Series([None], dtype="UInt64"))[1] == "whole"


def test_categories_are_ids():
    long = frame().melt("date", var_name="unique_id", value_name="y").rename(columns={"date": "ds"})
    expected = forecast(long)["y"].to_numpy()
    np.testing.assert_array_equal(forecast(pl.from_pandas(long).with_columns(pl.col("unique_id").cast(pl.Categorical)))["y"].to_numpy(), expected)
    np.testing.assert_array_equal(forecast(long.astype({"unique_id": "category"}))["y"].to_numpy(), expected)


def test_missing_values_are_filled_alike(tmp_path):
    gaps = pl.from_pandas(frame()).with_columns(load=pl.when(pl.col("day") == 3).then(None).otherwise(pl.col("load")))
    gaps.write_csv(tmp_path / "gaps.csv")
    expected = np.asarray(forecast(tmp_path / "gaps.csv")["load"])
    for table in (gaps, gaps.to_pandas(), gaps.with_columns(pl.col("load").fill_null(float("nan")))):
        np.testing.assert_array_equal(np.asarray(forecast(table)["load"]), expected)
    whole = pd.DataFrame({"date": frame()["date"], "day": pd.array(frame()["day"], dtype="Int64")})
    whole.loc[5, "day"] = pd.NA
    assert np.isfinite(forecast(whole)["day"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.lit([1, 2]).alias("day"), "column 'day': holds lists or structs"),
        (pl.lit(float("inf")).alias("load"), "line 2, column 'load': 'inf' is not finite"),
        (pl.lit(1e39).alias("load"), "column 'load': '1e\\+39' is too large"),
        (pl.when(pl.col("day") == 3).then(None).otherwise(pl.col("date")).alias("date"), "line 5, column 'date': has no date"),
        (pl.lit(None).cast(pl.Float64).alias("load"), None),
    ],
)
def test_what_is_wrong_with_a_column_is_named(change, message):
    table = pl.from_pandas(frame()).with_columns(change)
    if message is None:  # a column of nothing is left out
        assert "load" not in forecast(table).columns
        return
    with pytest.raises(ingot.errors.DataError, match=message):
        forecast(table)


def test_a_stream_that_fails_says_what_its_owner_says():
    pyarrow = pytest.importorskip("pyarrow")

    def batches():
        yield pyarrow.record_batch({"date": [1, 2], "load": [1.0, 2.0]})
        raise ValueError("the disk is gone")

    schema = pyarrow.schema([("date", pyarrow.int64()), ("load", pyarrow.float64())])
    with pytest.raises(ingot.errors.DataError, match="the disk is gone"):
        forecast(pyarrow.RecordBatchReader.from_batches(schema, batches()))


def test_parquet_files_are_read_as_the_command_reads_them(tmp_path):
    pl.from_pandas(frame()).write_parquet(tmp_path / "t.parquet", compression="zstd")
    np.testing.assert_array_equal(np.asarray(forecast(tmp_path / "t.parquet")["load"]), forecast(frame())["load"].to_numpy())


def test_a_dict_of_lists_needs_no_other_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # as if it were not installed
    result = forecast({name: frame()[name].astype(str).to_list() for name in frame()})
    np.testing.assert_array_equal(result["load"], forecast(frame())["load"])
    assert result["date"][0].startswith("2024-03-30")


@pytest.mark.parametrize("ids", [("007", "1"), ("1_000", "1_001")])
def test_ids_of_a_dict_that_look_like_numbers_stay_text(ids, monkeypatch):
    table = {
        "unique_id": [name for name in ids for _ in range(240)],
        "ds": [str(date) for date in frame()["date"]] * 2,
        "y": [*frame()["load"], *frame()["day"]],
    }
    assert list(dict.fromkeys(forecast(table)["unique_id"])) == list(ids)
    monkeypatch.setitem(sys.modules, "polars", None)
    result = forecast(table)
    assert list(dict.fromkeys(result["unique_id"])) == list(ids)
    assert all(isinstance(value, float) for value in result["y"])


@pytest.mark.parametrize("row", [0, 5])
def test_a_date_of_five_digits_of_the_year_is_told_with_its_row(row):
    values = frame()["date"].astype("datetime64[s]").to_numpy().copy()
    values[row] = np.datetime64(2**50, "s")
    table = pl.from_pandas(frame()).with_columns(date=pl.Series(values.astype("datetime64[s]").astype("int64")).cast(pl.Int64))
    pyarrow = pytest.importorskip("pyarrow")
    arrow = table.to_arrow()
    arrow = arrow.set_column(0, "date", arrow["date"].cast(pyarrow.timestamp("s")))
    with pytest.raises(ingot.errors.DataError, match=f"line {row + 2}, column 'date': .*years 1000 to 9999"):
        forecast(arrow)


def test_what_is_no_table_is_told():
    with pytest.raises(TypeError, match="set is not a table: give a frame of pandas, polars"):
        forecast({1, 2})
