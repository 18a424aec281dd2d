#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ingot/core/dtype.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/byte_reader.h"

namespace ingot {

/// An element type of HDF5, as far as tensors need it.
struct Hdf5Type {
  enum class Kind : std::uint8_t { integer, floating, string, enumeration, variable, other };
  Kind kind = Kind::other;
  std::uint32_t size = 0;
  bool is_signed = false, big_endian = false;
  int exponent_bits = 0, mantissa_bits = 0;

  std::optional<DType> dtype() const;
  std::string name() const;
};

/// Where a dataset's bytes lie.
struct Hdf5Layout {
  enum class Kind : std::uint8_t { none, contiguous, chunked };
  Kind kind = Kind::none;
  std::uint64_t address = 0, size = 0;     ///< contiguous: of the bytes; chunked: of the index (size unused)
  std::vector<std::uint64_t> chunk_shape;  ///< with the element's size as the last
};

struct Hdf5Filter {
  std::uint16_t id = 0;  ///< 1 deflate, 2 shuffle, 3 Fletcher's checksum
};

struct Hdf5Dataset {
  std::string path;
  std::vector<std::int64_t> shape;
  Hdf5Type type;
  Hdf5Layout layout;
  std::vector<Hdf5Filter> filters;
};

/// What a file holds: read once, from the top.
struct Hdf5Contents {
  std::vector<Hdf5Dataset> datasets;
  std::map<std::string, std::string> attributes;  ///< the root's texts
};
Hdf5Contents read_hdf5(std::span<const std::byte> bytes, const std::string& file);

/// A piece of a chunked dataset.
struct Hdf5Chunk {
  std::vector<std::uint64_t> offset;  ///< of its first element
  std::uint64_t address = 0;
  std::uint32_t size = 0, skipped_filters = 0;
};
/// FormatError unless they cover the dataset.
std::vector<Hdf5Chunk> read_hdf5_chunks(std::span<const std::byte> bytes, const std::string& file,
                                        const Hdf5Dataset& dataset);

}  // namespace ingot
