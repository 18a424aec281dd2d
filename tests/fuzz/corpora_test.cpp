// Every fuzz target on every file of its corpus: no crash, no endless loop, no error but an Error.
#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

extern "C" {
#define FUZZ_TARGET(name) int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
}

namespace ingot {
namespace {

void replay(const std::string& name, int (*target)(const std::uint8_t*, std::size_t)) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/fuzz/corpus/" + name)) {
    SCOPED_TRACE(entry.path().string());
    const std::string content = read_file(entry.path().string());
    EXPECT_NO_THROW(target(reinterpret_cast<const std::uint8_t*>(content.data()), content.size()));
    ++files;
  }
  EXPECT_GT(files, 0);
}

#define FUZZ_TARGET(name) \
  TEST(FuzzCorpora, name) { replay(#name, fuzz_##name); }
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

}  // namespace
}  // namespace ingot
