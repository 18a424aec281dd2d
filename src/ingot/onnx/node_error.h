#pragma once

#include <span>
#include <string>

#include "ingot/base/error.h"
#include "ingot/onnx/op.h"

namespace ingot::onnx {

/// A node in messages: "Conv 'features.0'", or by what it makes where the file gives it no name:
/// "Conv (output 'y')".
std::string label_of(const Node& node);

/// Throws an error of a node again, of the same type and with the same fields, and with a message that names
/// the node. `told`: inputs whose names, types and shapes follow; none where the message is to be the same
/// for other inputs.
[[noreturn]] void rethrow_for_node(const Error& error, const Node& node, std::span<const Value> told);

}  // namespace ingot::onnx
