#pragma once

#include <map>
#include <memory>
#include <string>

#include "ingot/weights/weight_source.h"

namespace ingot {

/// The tensors of another source, and further ones from memory, which stand instead of any of its own of
/// their names.
std::shared_ptr<const WeightSource> with_tensors(std::shared_ptr<const WeightSource> base,
                                                 std::map<std::string, Tensor> more);

}  // namespace ingot
