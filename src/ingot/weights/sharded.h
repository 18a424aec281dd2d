#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// Opens the files that an index puts together: `{"weight_map": {tensor: file}}`, as transformers writes it
/// beside its shards (model.safetensors.index.json, pytorch_model.bin.index.json). The files must lie beside
/// the index and hold just what it promises; FormatError or IoError names what is missing. Tensors that a
/// file holds besides are not offered.
std::unique_ptr<WeightSource> open_sharded(const std::string& index_path,
                                           const std::function<std::unique_ptr<WeightSource>(Blob)>& open);

/// The file in a directory that stands for all its weights: one of `usual` ("model.safetensors", ...) or its
/// index, in this order, else the only file (or index) with such an ending. IoError where there is none or no
/// telling which.
std::string find_weights_in(const std::string& directory, std::span<const std::string_view> usual);

}  // namespace ingot
