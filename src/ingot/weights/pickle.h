#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ingot/core/dtype.h"

namespace ingot {

/// What a pickle of PyTorch can hold, read without running anything. Values lie in one list and refer to each
/// other by index, so that a pickle that refers to itself is not a danger.
struct PickleValue {
  using Ref = std::uint32_t;
  struct None {};
  /// An integer of more than 64 bits: its bytes.
  struct Long {
    std::string_view bytes;
  };
  struct Bytes {
    std::string_view bytes;
  };
  struct Tuple {
    std::vector<Ref> items;
  };
  struct List {
    std::vector<Ref> items;
  };
  struct Dict {
    std::vector<std::pair<Ref, Ref>> items;
  };
  /// A class or function that was named. Only those that torch_globals.h lists get this far.
  struct Global {
    std::string_view module, name;
  };
  /// ("storage", class, key, location, elements): bytes that lie elsewhere in the file.
  struct Storage {
    std::string_view type;  ///< "FloatStorage"; "UntypedStorage" counts bytes
    std::string_view key;
    std::int64_t elements = 0;
    /// Of legacy files: this storage is a part of that with `key`, from this element on.
    std::int64_t view_offset = 0;
  };
  struct Tensor {
    Ref storage = 0;
    std::string_view dtype;  ///< "float8_e4m3fn" where the storage has no type; else empty
    std::int64_t offset = 0;
    std::vector<std::int64_t> shape, strides;
  };
  std::variant<None, bool, std::int64_t, double, std::string_view, Long, Bytes, Tuple, List, Dict, Global,
               Storage, Tensor>
      value;
  std::size_t at = 0;  ///< the byte of the pickle that made it
};

/// A pickle, read to its end.
struct Pickle {
  std::vector<PickleValue> values;
  PickleValue::Ref root = 0;
  std::size_t end = 0;  ///< the byte after it

  const PickleValue& operator[](PickleValue::Ref ref) const { return values[ref]; }
};

/// Reads the pickle that begins at byte `at`. Nothing of it is run: the few functions of PyTorch that rebuild
/// tensors are known by name and answered with PickleValue::Tensor; any other name is a FormatError, as are
/// truncation, a wrong stack, and pickles of absurd size. Texts are parts of `bytes`, which must outlive the
/// result.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& file, std::size_t at = 0);

}  // namespace ingot
