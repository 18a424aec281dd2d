#!/usr/bin/env python3
"""Small TensorFlow checkpoints (format V2), for tests/weights.

Needs tensorflow-cpu (made with tensorflow_cpu 2.21.0):

    python tools/goldens/tensorflow_goldens.py

Every tensor holds 0, 1, 2, ...
"""
import pathlib

import tensorflow as tf

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "weights" / "goldens"


def counted(shape, dtype):
    n = 1
    for size in shape:
        n *= size
    return tf.reshape(tf.cast(tf.range(n), dtype), shape)


def main():
    names = ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"]
    dtypes = [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int16, tf.int8, tf.uint8]
    tensors = {name: counted([2, 3], dtype) for name, dtype in zip(names, dtypes)}
    tensors["bool"] = tf.constant([True, False, True])
    tensors["scalar"] = tf.constant(7.0)
    tensors["empty"] = tf.zeros([0, 4])
    tensors["text"] = tf.constant(["one", "two"])
    for i in range(60):  # keys that share their beginnings, more than one restart of the table
        tensors[f"bert/encoder/layer_{i:02}/kernel"] = tf.fill([2], float(i))
    tf.raw_ops.SaveV2(prefix=str(OUT / "bundle"), tensor_names=list(tensors), shape_and_slices=[""] * len(tensors),
                      tensors=list(tensors.values()))


if __name__ == "__main__":
    main()
