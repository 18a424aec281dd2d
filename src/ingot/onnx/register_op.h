#pragma once

#include "ingot/onnx/op.h"

namespace ingot::onnx {

/// Makes an operator known that is in none of the families, by its name behind its domain and a dot: before a
/// graph that has it is opened. `row.name` outlives the graphs. InvalidConfig where there is one of this
/// name.
void register_op(const OpRow& row);

}  // namespace ingot::onnx
