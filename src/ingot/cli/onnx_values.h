#pragma once

#include <string>

#include "ingot/onnx/value.h"

namespace ingot::cli {

/// An input from a .npy file, unsigned numbers of 16 to 64 bits included. Errors as read_npy's.
onnx::Value read_value(const std::string& path);

/// An input from a .npy file, unsigned numbers of 16 to 64 bits included. Errors as read_npy's.
onnx::Value read_value(const std::string& path);

/// A tensor as a .npy file: strings as NumPy's own, unsigned numbers as what they are, everything else in its
/// dtype (what Ingot only carries, in the carrier's). Returns what it is, for people. IoError.
std::string write_value(const std::string& path, const onnx::Value& value, const onnx::Texts& texts);

}  // namespace ingot::cli
