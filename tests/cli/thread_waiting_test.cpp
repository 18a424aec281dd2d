#include "tests/cli/process.h"
#include <gtest/gtest.h>

namespace ingot::testing {
namespace {

/// What libgomp read when the program was loaded, the last time.
std::string spins_of(std::vector<std::string> environment) {
  environment.emplace_back("OMP_DISPLAY_ENV=verbose");
  const std::string told = run_ingot({"--version"}, environment).errors, key = "GOMP_SPINCOUNT = '";
  const std::size_t at = told.rfind(key);
  return at == told.npos ? ""
                         : told.substr(at + key.size(), told.find('\'', at + key.size()) - at - key.size());
}

// Two programs that spin for milliseconds each between operations slow each other tenfold.
TEST(ThreadWaiting, IsBoundedUnlessTheEnvironmentSaysHow) {
  EXPECT_EQ(spins_of({"-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT"}), "20000");
  EXPECT_EQ(spins_of({"-u", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT=77"}), "77");
  EXPECT_EQ(spins_of({"-u", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY=passive"}), "0");
}

}  // namespace
}  // namespace ingot::testing
