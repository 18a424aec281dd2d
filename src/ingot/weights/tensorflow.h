#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A TensorFlow checkpoint (format V2, a "tensor bundle"): `PREFIX.index`, a sorted table, and
/// `PREFIX.data-00000-of-00001` and so on beside it. `path` is the index, or the prefix. Tensors alias the
/// mapped shards; their CRC is checked when they load. FormatError names file, offset and key; NotImplemented
/// big-endian files, compressed tables and variables that were stored in slices.
std::unique_ptr<WeightSource> open_tensorflow(const std::string& path);

/// The same with the index in memory and shards from wherever `open_shard` finds them by number.
std::unique_ptr<WeightSource> open_tensorflow(Blob index,
                                              const std::function<Blob(int shard, int shards)>& open_shard);

}  // namespace ingot
