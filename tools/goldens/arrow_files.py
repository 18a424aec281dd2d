#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/arrow/*, small Arrow files of those who write them, tests/data/arrow_goldens.json, their rows
as pyarrow reads them, and tests/data/saved_dataset, what datasets' save_to_disk writes.

Run with pyarrow==26.0.1, pandas==2.3.3, polars==2.1.0, datasets==5.2.0. With --random N DIRECTORY it writes N larger files
of random columns there instead, and their goldens.json, for INGOT_ARROW_FILES.
"""
import argparse
import datetime
import json
import pathlib
import random
import shutil

import datasets
import polars
import pyarrow as pa
from parquet_files import ROOT, chats, times, value


def write(path, table, stream=True, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=3)


def rows(path):
    with open(path, "rb") as file:
        head = file.read(6)
    table = (pa.ipc.open_file if head == b"ARROW1" else pa.ipc.open_stream)(pa.memory_map(str(path))).read_all()
    columns = [[value(item) for item in table.column(i)] for i in range(table.num_columns)]
    return [dict(zip(table.column_names, row)) for row in zip(*columns)]


def nested():
    return pa.table({
        "messages": pa.array(chats(7)),
        "lists": pa.array([[[1, 2], []], [], None, [None, [3]], [[None]], [[4, 5, 6]], [[]]], pa.large_list(pa.list_(pa.int32()))),
        "pairs": pa.array([[1, 2], None, [3, None], [5, 6], [7, 8], [9, 10], [11, 12]], pa.list_(pa.int16(), 2)),
        "map": pa.array([[("k", 1)], [], None, [("a", None), ("b", 2)], [("c", 3)], [], [("d", 4)]], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.nulls(7), "last": pa.array(range(7), pa.int8())})


def base():
    return pa.table({
        "i8": pa.array([-128, None, 127, 0], pa.int8()), "u16": pa.array([0, 65535, None, 1], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, None, 1], pa.uint32()), "u64": pa.array([0, 2**64 - 1, None, 1], pa.uint64()),
        "i64": pa.array([-2**63, 2**63 - 1, None, 0]), "f32": pa.array([0.1, None, -1e30, float("nan")], pa.float32()),
        "f64": pa.array([0.1, None, 5e-324, 1.5]), "yes": pa.array([True, None, False, True]),
        "text": pa.array(["a", None, "", "größer 你好"]), "wide": pa.array(["a", "", None, "b"], pa.large_string()),
        "bytes": pa.array([b"abc", b"\xff\x00", None, b""]),
        "time32": pa.array([0, 86399, None, 1], pa.time32("s")),
        "date64": pa.array([datetime.date(2020, 2, 29), None, datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)],
                           pa.date64()),
        "label": pa.array(["a", "b", None, "a"]).dictionary_encode()})


def small_files(directory):
    write(directory / "stream", base())
    write(directory / "file", base(), stream=False)
    write(directory / "zstd", base(), compression="zstd")
    write(directory / "lz4", base(), compression="lz4")
    write(directory / "nested", nested())
    write(directory / "nested_zstd_file", nested(), stream=False, compression="zstd")
    write(directory / "times", times())
    write(directory / "empty", base().slice(0, 0))
    polars.DataFrame({"n": [1, 2, None], "text": ["x", None, "größer"]}).write_ipc(
        directory / "polars", compat_level=polars.CompatLevel.oldest())
    saved = ROOT / "tests/data/saved_dataset"
    shutil.rmtree(saved, ignore_errors=True)
    parts = {split: datasets.Dataset.from_dict({"text": [f"{split} {i}" for i in range(n)]})
             for split, n in (("train", 5), ("test", 2))}
    datasets.DatasetDict(parts).save_to_disk(str(saved), num_shards={"train": 2, "test": 1})
    for lock in saved.rglob("*.lock"):
        lock.unlink()


def random_file(rng, path):
    n = rng.randrange(1, 200)
    kinds = [pa.int8(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(),
             pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.date32(), pa.list_(pa.int32()), pa.large_list(pa.string()),
             pa.struct([("a", pa.int16()), ("b", pa.list_(pa.float64()))])]

    def one(kind):
        if rng.random() < 0.2:
            return None
        if pa.types.is_boolean(kind):
            return rng.random() < 0.5
        if pa.types.is_integer(kind):
            low, high = (0, 2**kind.bit_width - 1) if "uint" in str(kind) else (-2**(kind.bit_width - 1), 2**(kind.bit_width - 1) - 1)
            return rng.randint(low, high)
        if pa.types.is_floating(kind):
            return rng.gauss(0, 1e3)
        if pa.types.is_timestamp(kind):
            return rng.randrange(-10**12, 4 * 10**12)
        if pa.types.is_date(kind):
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=rng.randrange(-10**5, 10**5))
        if pa.types.is_struct(kind):
            return {field.name: one(field.type) for field in kind}
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return [one(kind.value_type) for _ in range(rng.randrange(5))]
        return "".join(rng.choice("aß你 \n\"") for _ in range(rng.randrange(12)))

    columns = {}
    for i in range(rng.randrange(1, 7)):
        kind = rng.choice(kinds)
        column = pa.array([one(kind) for _ in range(n)], kind)
        columns[f"c{i}"] = column.dictionary_encode() if kind == pa.string() and rng.random() < 0.5 else column
    table = pa.table(columns)
    if rng.random() < 0.3:
        table = table.slice(rng.randrange(n))
    write(path, table, stream=rng.random() < 0.5, compression=rng.choice([None, "zstd", "lz4"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", nargs=2, metavar=("N", "DIRECTORY"))
    arguments = parser.parse_args()
    if arguments.random:
        directory = pathlib.Path(arguments.random[1])
        directory.mkdir(parents=True, exist_ok=True)
        rng = random.Random(int(arguments.random[0]))
        for i in range(int(arguments.random[0])):
            random_file(rng, directory / f"{i}.arrow")
        files, goldens = sorted(directory.glob("*.arrow")), directory / "goldens.json"
    else:
        directory = ROOT / "tests/fuzz/corpus/arrow"
        directory.mkdir(parents=True, exist_ok=True)
        small_files(directory)
        damaged = {"shared_children"}  # by hand, for the fuzzer
        files = sorted(path for path in directory.iterdir() if path.name not in damaged)
        goldens = ROOT / "tests/data/arrow_goldens.json"
    contents = {path.name: rows(path) for path in files}
    goldens.write_text(json.dumps(contents, ensure_ascii=False, indent=None if arguments.random else 1) + "\n")


if __name__ == "__main__":
    main()
