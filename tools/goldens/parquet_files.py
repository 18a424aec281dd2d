#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/parquet/*, small Parquet files of those who write them, and tests/data/parquet_goldens.json:
their rows as pyarrow reads them.

Run with pyarrow==26.0.1, pandas==2.3.3, polars==2.1.0, duckdb==2.0.1, datasets==5.2.0. With --random N DIRECTORY it writes
N larger files of random columns, encodings and codecs and one goldens.json there instead, for INGOT_PARQUET_FILES.
"""
import argparse
import datetime
import decimal
import json
import pathlib
import random

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def clock(second, fraction, ticks):
    text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return text if fraction == 0 else f"{text}.{fraction:0{len(str(ticks)) - 1}}"


def moment(value, ticks, utc):
    second, fraction = divmod(value, ticks)
    day, rest = divmod(second, 86400)
    date = str(datetime.date(1970, 1, 1) + datetime.timedelta(days=day))
    if rest == 0 and fraction == 0 and not utc:
        return date
    return f"{date} {clock(rest, fraction, ticks)}{'+00:00' if utc else ''}"


def value(scalar):
    """A value as data::for_each_parquet_row gives it."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        return moment(scalar.value, TICKS[kind.unit], kind.tz is not None)
    if pa.types.is_time(kind):
        ticks = TICKS[kind.unit]
        return clock(*divmod(scalar.value, ticks), ticks)
    if pa.types.is_date(kind):
        return str(scalar.as_py())
    if pa.types.is_decimal(kind):
        return f"{scalar.as_py():f}"
    if pa.types.is_floating(kind):
        number = float(scalar.as_py())
        return None if number != number else number
    if pa.types.is_map(kind):
        return {str(pair["key"].as_py()): value(pair["value"]) for pair in scalar.values}
    if pa.types.is_struct(kind):
        return {name: value(scalar[name]) for name in kind.names}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(item) for item in scalar.values]
    if pa.types.is_dictionary(kind):
        return scalar.as_py()
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        try:
            return scalar.as_py().decode()
        except UnicodeDecodeError:
            return {"bytes": list(scalar.as_py()), "subtype": None}
    return scalar.as_py()


def rows(path):
    table = pq.read_table(path)
    columns = [[value(item) for item in table.column(i)] for i in range(table.num_columns)]
    return [dict(zip(table.column_names, row)) for row in zip(*columns)]


def chats(n):
    return [None if i == 4 else [{"role": ("user", "assistant")[k % 2], "content": f"turn {k} of {i}, größer 你好"} for k in range(i % 4)]
            for i in range(n)]


def times():
    stamps = [0, 1577883600123456789, None, -1, 4102444799999999999, 1577836800000000000]
    def of(unit, tz=None):
        return pa.array([None if s is None else s // (10**9 // TICKS[unit]) for s in stamps], pa.timestamp(unit, tz=tz))
    D = decimal.Decimal
    return pa.table({
        "date": pa.array([datetime.date(2020, 2, 29), None, datetime.date(1969, 12, 31), datetime.date(1, 1, 1),
                          datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)]),
        "ms": of("ms"), "us": of("us"), "ns": of("ns"), "utc": of("us", "UTC"), "berlin": of("ms", "Europe/Berlin"),
        "time": pa.array([0, 1, 86399999999, None, 43200000000, 3600000000], pa.time64("us")),
        "price": pa.array([D("1.50"), D("-0.01"), None, D("0.00"), D("1234567.89"), D("-9.99")], pa.decimal128(9, 2)),
        "wide": pa.array([D("-12345678901234567890123456.789"), D("0.001"), None, D("0.000"), D("-0.001"), D("9.990")],
                         pa.decimal128(38, 3)),
        "half": pa.array([0.5, -2.0, None, 65504.0, 6e-8, 1 / 3], pa.float16()),
        "fixed": pa.array([b"abc", b"\xff\x00\x01", None, b"xyz", b"123", b"   "], pa.binary(3)),
    })


def small_files(directory):
    base = pa.table({
        "i8": pa.array([-128, None, 127, 0], pa.int8()), "u16": pa.array([0, 65535, None, 1], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, None, 1], pa.uint32()), "u64": pa.array([0, 2**64 - 1, None, 1], pa.uint64()),
        "i64": pa.array([-2**63, 2**63 - 1, None, 0]), "f32": pa.array([0.1, None, -1e30, float("nan")], pa.float32()),
        "f64": pa.array([0.1, None, 5e-324, 1.5]), "yes": pa.array([True, None, False, True]),
        "text": pa.array(["a", None, "", "größer 你好"]), "required": pa.array([1, 2, 3, 4], pa.int32())})
    base = base.cast(base.schema.set(9, pa.field("required", pa.int32(), nullable=False)))

    def write(name, table, **options):
        options = {"compression": "none", "use_dictionary": False, "store_schema": False, "write_statistics": False, **options}
        pq.write_table(table, directory / name, **options)

    write("plain", base)
    many = pa.table({"id": [f"store {i // 17 % 3}" for i in range(90)], "n": [None if i % 7 == 3 else i // 9 for i in range(90)]})
    write("dictionary_snappy", many, use_dictionary=True, compression="snappy", row_group_size=50, data_page_size=16,
          write_batch_size=8)
    write("v2_zstd", base, data_page_version="2.0", compression="zstd", use_dictionary=["text"])
    ints = [0, 1, -1, 2**31 - 1, -2**31, 5, 6, 7, 8] + [i * i % 101 for i in range(140)]
    words = [f"{'ab' * (i % 5)}{i:03}" if i % 11 else None for i in range(len(ints))]
    write("delta_gzip", pa.table({"i32": pa.array(ints, pa.int32()), "i64": pa.array([i << 30 for i in ints]), "length": words,
                                  "prefix": words}), compression="gzip", data_page_version="2.0",
          column_encoding={"i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "length": "DELTA_LENGTH_BYTE_ARRAY",
                           "prefix": "DELTA_BYTE_ARRAY"})
    split = {"f": pa.array([0.25 * i for i in range(20)], pa.float32()), "d": [i / 3 for i in range(20)],
             "i": pa.array(range(20), pa.int32())}
    write("split_lz4", pa.table(split), compression="lz4", column_encoding={c: "BYTE_STREAM_SPLIT" for c in split})
    write("brotli", pa.table({"text": [f"line {i % 3} of some text" for i in range(40)]}), compression="brotli")
    write("times", times())
    write("int96", pa.table({"t": pa.array([0, 1577883600123456789, None], pa.timestamp("ns"))}), use_deprecated_int96_timestamps=True)
    nested = pa.table({
        "messages": pa.array(chats(7)),
        "lists": pa.array([[[1, 2], []], [], None, [None, [3]], [[None]], [[4, 5, 6]], [[]]], pa.list_(pa.list_(pa.int32()))),
        "deep": pa.array([{"a": {"b": 1, "c": ["x"]}}, None, {"a": None}, {"a": {"b": None, "c": []}}, {"a": {"b": 2, "c": None}},
                          {"a": {"b": 3, "c": ["y", None]}}, None]),
        "map": pa.array([[("k", 1)], [], None, [("a", None), ("b", 2)], [("c", 3)], [], [("d", 4)]], pa.map_(pa.string(), pa.int64())),
        "last": pa.array(range(7), pa.int8())})
    write("nested", nested, compression="snappy", use_dictionary=True, data_page_size=64, write_batch_size=2)
    write("nested_v2", nested, compression="zstd", data_page_version="2.0", use_compliant_nested_type=False)
    write("empty", base.slice(0, 0))

    import datasets
    import duckdb
    import pandas as pd
    import polars as pl
    frame = pd.DataFrame({"sales": [1.5, 999.0, 1.125], "promo": [True, False, True]},
                         index=pd.date_range("2024-01-30", periods=3, freq="D"))
    frame.to_parquet(directory / "pandas")
    pl.DataFrame({"day": [datetime.date(2024, 1, d) for d in (1, 2, 3)], "y": [1, None, 3], "tags": [["a"], [], None]}).write_parquet(
        directory / "polars")
    duckdb.sql("copy (select range as i, 'row ' || range as name, date '2024-01-01' + range::int as day, "
               "(range / 4)::decimal(9, 2) as price, [{'role': 'user', 'content': 'q' || range}] as messages from range(5)) "
               f"to '{directory / 'duckdb'}' (format parquet)")
    datasets.Dataset.from_list([{"messages": chat} for chat in chats(4)[2:]]).to_parquet(str(directory / "datasets"))


def random_column(rng, n, depth=0):
    kinds = ["int", "small", "float", "double", "bool", "text", "time", "binary", "decimal"]
    if depth < 3:
        kinds += ["list", "struct", "map"]
    kind = rng.choice(kinds)
    nulls = rng.choice([0, 0, 0.1, 0.9])
    def fill(make, kind_):
        return pa.array([None if rng.random() < nulls else make() for _ in range(n)], kind_)
    words = ["w" * rng.randrange(20) + str(i) for i in range(rng.choice([2, 30, 3000]))]
    if kind == "int":
        return fill(lambda: rng.randrange(-2**63, 2**63) >> rng.choice([0, 40, 60]), pa.int64())
    if kind == "small":
        return fill(lambda: rng.randrange(-100, 100), rng.choice([pa.int8(), pa.int16(), pa.int32()]))
    if kind == "float":
        return fill(lambda: rng.gauss(0, 1), pa.float32())
    if kind == "double":
        return fill(lambda: rng.gauss(0, 1e9), pa.float64())
    if kind == "bool":
        return fill(lambda: rng.random() < 0.9, pa.bool_())
    if kind == "text":
        return fill(lambda: rng.choice(words), rng.choice([pa.string(), pa.large_string()]))
    if kind == "time":
        unit = rng.choice(["ms", "us", "ns"])
        return fill(lambda: rng.randrange(-2**30, 2**31) * TICKS[unit] + rng.randrange(TICKS[unit]),
                    pa.timestamp(unit, tz=rng.choice([None, "UTC"])))
    if kind == "binary":
        return fill(lambda: rng.randbytes(rng.randrange(9)), pa.binary())
    if kind == "decimal":
        digits = rng.choice([5, 12, 30])
        return fill(lambda: decimal.Decimal(rng.randrange(-10**digits + 1, 10**digits)).scaleb(-2),
                    pa.decimal128(digits, 2))
    if kind == "struct":
        parts = [random_column(rng, n, depth + 1) for _ in range(rng.randrange(1, 4))]
        mask = pa.array([rng.random() < nulls for _ in range(n)], pa.bool_())
        return pa.StructArray.from_arrays(parts, [f"c{i}" for i in range(len(parts))], mask=mask)
    sizes = [None if rng.random() < nulls else rng.choice([0, 1, 1, 2, 5]) for _ in range(n)]
    offsets, total = [], 0
    for size in sizes:
        offsets.append(None if size is None else total)
        total += size or 0
    offsets = pa.array(offsets + [total], pa.int32())
    if kind == "list":
        return pa.ListArray.from_arrays(offsets, random_column(rng, total, depth + 1))
    keys = pa.array([f"k{i}" for i in range(total)], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, random_column(rng, total, depth + 1))


def random_file(rng, path):
    n = rng.choice([1, 10, 1000, 5000])
    table = pa.table({f"c{i}": random_column(rng, n) for i in range(rng.randrange(1, 6))})
    options = {"compression": rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
               "data_page_version": rng.choice(["1.0", "2.0"]), "use_dictionary": rng.random() < 0.5,
               "data_page_size": rng.choice([64, 4096, 1 << 20]), "row_group_size": rng.choice([7, 600, 100000]),
               "write_batch_size": rng.choice([1, 64, 1024])}
    if not options["use_dictionary"]:
        names = {pa.int64(): ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"], pa.float64(): ["BYTE_STREAM_SPLIT", "PLAIN"],
                 pa.string(): ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"], pa.bool_(): ["RLE", "PLAIN"]}
        options["column_encoding"] = {c: rng.choice(names[table.schema.field(c).type]) for c in table.column_names
                                      if table.schema.field(c).type in names}
    pq.write_table(table, path, **options)
    try:
        rows(path)
    except OSError:  # what pyarrow itself cannot read back
        path.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", nargs=2, metavar=("N", "DIRECTORY"))
    args = parser.parse_args()
    directory = ROOT / "tests" / "fuzz" / "corpus" / "parquet"
    out = ROOT / "tests" / "data" / "parquet_goldens.json"
    if args.random:
        directory = pathlib.Path(args.random[1])
        out = directory / "goldens.json"
    directory.mkdir(parents=True, exist_ok=True)
    if args.random:
        for i in range(int(args.random[0])):
            random_file(random.Random(i), directory / f"random{i}")
    else:
        small_files(directory)
    files = sorted(p for p in directory.iterdir() if p.name != "goldens.json" and not p.name.startswith("bad_"))
    text = ",\n".join(f" {json.dumps(p.name)}: {json.dumps(rows(p), ensure_ascii=False)}" for p in files)
    out.write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
