#pragma once

#include <string>

#include "tests/support/source_dir.h"

#include "ingot/weights/open.h"

namespace ingot::test {

/// A file or directory of tests/models/goldens.
inline std::string golden_path(const std::string& name) {
  return source_dir() + "/tests/models/goldens/" + name;
}

/// A tensor of its expected.safetensors.
inline Tensor expected(const std::string& golden, const std::string& name) {
  return open_weights(golden_path(golden) + "/expected.safetensors")->load_tensor(name);
}

}  // namespace ingot::test
