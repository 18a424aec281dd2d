#pragma once

#include <memory>
#include <string>

#include "ingot/core/tensor.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/weight_source.h"

// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

namespace ingot {

/// Writes a tensor as a .npy file (version 1.0), atomically. NumPy has no bf16 and no 8-bit floats: convert
/// those first.
void write_npy(const std::string& path, const Tensor& tensor);

/// Reads a .npy file. Big-endian and Fortran-ordered arrays are put into our order. FormatError names what is
/// wrong, NotImplemented an element type that Ingot lacks (unsigned of more than 8 bits, complex, objects).
Tensor read_npy(const std::string& path);

/// What a .npy file says of its array, known from its first bytes.
struct NpyDescription {
  TensorInfo info;
  bool fortran_order = false;
  bool swapped = false;  ///< big-endian
};
/// No header that NumPy writes is longer.
inline constexpr std::size_t kMaxNpyHeader = 65536 + 12;
/// `start` holds the first kMaxNpyHeader bytes, or all, of a file of `file_size` bytes.
NpyDescription parse_npy(std::span<const std::byte> start, std::uint64_t file_size, const std::string& file);
/// Takes the elements of a type that Ingot lacks ("<u2") for those of `dtype`, which has the same width.
/// FormatError where the file does not hold as many.
void take_as(NpyDescription& description, DType dtype);
/// The array of a description's file, whose bytes begin with its header.
Tensor load_npy(const NpyDescription& description, const Blob& blob);

/// Writes a .npy file's header (version 1.0), without data; IoError as write_npy does.
std::string npy_header(const std::string& path, const Shape& shape, DType dtype);
/// The same for any of NumPy's types, by its name: "<u2", "<U5".
std::string npy_header(const Shape& shape, const std::string& descr);

/// The same as a source of one tensor, named like the file without ".npy".
std::unique_ptr<WeightSource> open_npy(Blob blob);
std::unique_ptr<WeightSource> open_npy(const std::string& path);

}  // namespace ingot
