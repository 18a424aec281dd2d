#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/onnx/graph.h"
#include "ingot/onnx/value.h"

namespace ingot::cli {

/// An input from a .npy file, unsigned numbers of 16 to 64 bits included. Errors as read_npy's.
onnx::Value read_value(const std::string& path);

/// A tensor as a .npy file: strings as NumPy's own, unsigned numbers as what they are, bf16 and floats of 8
/// bits as f32, everything else in its dtype (what Ingot only holds, in the carrier's). Returns what it is,
/// for people. IoError.
std::string write_value(const std::string& path, const onnx::Value& value, const onnx::Texts& texts);

/// Error naming an output whose files would take more than `bytes`, the files of those before it included, or
/// where there were more than 65,536 of them: NumPy pads all strings to the longest, and a sequence may hold
/// one tensor many times.
void check_file_sizes(const std::vector<onnx::ValueInfo>& outputs, const onnx::Values& values,
                      const onnx::Texts& texts, std::uint64_t bytes);

}  // namespace ingot::cli
