#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

/// A file or directory of the shared test data; a test without it skips.
inline std::filesystem::path data_path(const std::string& name) {
  const char* set = std::getenv("INGOT_DATA_DIR");
  const std::filesystem::path root =
      set != nullptr ? set : std::filesystem::path(ingot::test::source_dir()) / "../shared/data";
  return root / name;
}

#define INGOT_REQUIRE_DATA(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path) << " is absent (set INGOT_DATA_DIR)"
