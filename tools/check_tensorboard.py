#!/usr/bin/env python3
"""Reads a directory of event files with TensorBoard itself, and prints what it found.

Needs the PyPI package `tensorboard`; for checking TensorBoardWriter by hand after a change. --expect-example compares
with what `INGOT_TENSORBOARD_EXAMPLE=DIR base_tests --gtest_filter='TensorBoard.*'` writes.
"""
import argparse
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--expect-example", action="store_true")
    arguments = parser.parse_args()
    events = EventAccumulator(arguments.directory, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    scalars = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags["scalars"]}
    texts = {tag: [(e.step, e.tensor_proto.string_val[0].decode()) for e in events.Tensors(tag)]
             for tag in tags["tensors"]}
    plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    for tag, values in {**scalars, **texts}.items():
        print(tag, plugins.get(tag, "scalars"), values)
    if arguments.expect_example:
        # The first run went to step 9; the second resumed at 5, so the first's steps from 5 on are forgotten.
        expected = {"loss": [(step, float(step)) for step in range(5)] + [(step, step + 0.5) for step in range(5, 8)]}
        if scalars != expected or texts != {"sample": [(3, "**hi** \u6771\u4eac")]} or plugins != {"sample": "text"}:
            print(f"expected {expected}")
            return 1
        print("as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
