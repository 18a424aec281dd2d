#include "ingot/base/shared_library.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace ingot {
namespace {

TEST(SharedLibrary, GivesTheFunctionsOfTheFirstThatCanBeOpened) {
  const std::array<std::string, 2> names{"libnothing_of_this_name.so.1", "libm.so.6"};
  SharedLibrary library(names);
  double (*root)(double) = nullptr;
  library.find(root, "sqrt");
  ASSERT_EQ(library.problem(), "");
  EXPECT_EQ(root(9.0), 3.0);
}

TEST(SharedLibrary, SaysWhichLibraryIsMissing) {
  const std::array<std::string, 1> names{"libnothing_of_this_name.so.1"};
  SharedLibrary library(names);
  double (*root)(double) = nullptr;
  library.find(root, "sqrt");
  EXPECT_EQ(root, nullptr);
  EXPECT_NE(library.problem().find("libnothing_of_this_name.so.1"), std::string::npos) << library.problem();
}

TEST(SharedLibrary, SaysWhichFunctionIsMissing) {
  const std::array<std::string, 1> names{"libm.so.6"};
  SharedLibrary library(names);
  void (*first)() = nullptr;
  void (*second)() = nullptr;
  library.find(first, "no_such_function");
  library.find(second, "nor_such");
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(library.problem(), "libm.so.6 has no no_such_function");
}

}  // namespace
}  // namespace ingot
