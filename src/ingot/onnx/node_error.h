#pragma once

#include <new>
#include <span>
#include <stdexcept>
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

/// Throws OutOfMemory that names the node.
[[noreturn]] void throw_out_of_memory(const Node& node);

/// What `work` gives. Its errors name the node (see rethrow_for_node), and what the process cannot hold is
/// OutOfMemory. `told` follows in errors that depend on the inputs.
template <class Work>
auto naming_errors(const Node& node, std::span<const Value> told, const Work& work) {
  try {
    return work();
  } catch (const NotImplemented& error) {  // what any inputs meet
    rethrow_for_node(error, node, {});
  } catch (const FormatError& error) {
    rethrow_for_node(error, node, {});
  } catch (const Error& error) {
    rethrow_for_node(error, node, told);
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(node);
  } catch (const std::length_error&) {  // a vector of more elements than any can have
    throw_out_of_memory(node);
  }
}

}  // namespace ingot::onnx
