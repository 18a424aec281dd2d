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


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("us", "UTC"), pl.Datetime("us", "Europe/Berlin")])
def test_dates_come_back_in_the_type_they_had(kind):
    every = "1D" if kind == pl.Date else "1h"
    table = pl.from_pandas(frame(every=every))
    dates = table["date"].dt.replace_time_zone("UTC") if getattr(kind, "time_zone", None) else table["date"]
    result = forecast(table.with_columns(dates.cast(kind)))
    assert result["date"].dtype == kind
    assert result["date"][0] == (dates[-1] + (dates[1] - dates[0])) if kind != pl.Date else result["date"][0] > dates[-1].date()


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


def test_what_is_no_table_is_told():
    with pytest.raises(TypeError, match="set is no table: a frame of pandas, polars"):
        forecast({1, 2})
