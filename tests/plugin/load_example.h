#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "ingot/plugin/load.h"

namespace ingot::test {

inline std::string plugin_library(const std::string& name) {
  return std::string(INGOT_PLUGIN_DIR) + "/" + name + ".so";
}

}  // namespace ingot::test

// Skips where the examples are not built.
#define LOAD_EXAMPLE(name)                                                    \
  do {                                                                        \
    const std::string path = ::ingot::test::plugin_library("example_" name);  \
    if (!std::ifstream(path).good()) GTEST_SKIP() << "INGOT_EXAMPLES is off"; \
    ::ingot::load_plugin(path);                                               \
  } while (false)
