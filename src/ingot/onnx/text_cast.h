#pragma once

#include "ingot/onnx/element.h"
#include "ingot/onnx/value.h"

namespace ingot::onnx {

/// ONNX' Cast between numbers and strings, one of which `x` holds and the other `type` is. Floats are written
/// in as few digits as give them back, "NaN", "INF" or "-INF", truth as 1 or 0. Strings are read with white
/// space around them; Error for one that is not a number of the kind, or does not fit into 64 bits. Whole
/// numbers wrap into a narrower type.
Value cast_text(const Value& x, const StoredType& type, Texts& texts);

}  // namespace ingot::onnx
