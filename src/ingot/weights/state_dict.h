#pragma once

#include <map>
#include <string>
#include <vector>

#include "ingot/weights/pickle.h"

namespace ingot {

/// A state dict's tensors by name, and the plain values beside them.
struct StateDict {
  struct Entry {
    std::string name;
    PickleValue::Ref tensor;
  };
  std::vector<Entry> tensors;
  std::map<std::string, std::string> metadata;
};

/// Joins nested dictionaries' keys with dots. `stem` names a tensor that was saved alone. FormatError where
/// two tensors get one name, or dictionaries nest beyond reason (or in a circle).
StateDict flatten_state_dict(const Pickle& pickle, const std::string& stem, const std::string& file);

}  // namespace ingot
