#include "ingot/base/env.h"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

/// Sets variables for one test and takes them away again.
class Env : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    setenv(name, value, 1);
    names_.emplace_back(name);
  }
  void TearDown() override {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(Env, OwnPrefixWinsOverTheOthersInTheirOrder) {
  EXPECT_FALSE(env_setting("TEST_A"));
  set("VSA_OPTIM_TEST_A", "vsa");
  EXPECT_EQ(env_setting("TEST_A")->value, "vsa");
  set("AXOLOTL_TEST_A", "axolotl");
  EXPECT_EQ(env_setting("TEST_A")->value, "axolotl");
  set("RUST_AI_TEST_A", "rust");
  EXPECT_EQ(env_setting("TEST_A")->value, "rust");
  set("INGOT_TEST_A", "ingot");
  EXPECT_EQ(env_setting("TEST_A")->value, "ingot");
  EXPECT_EQ(env_setting("TEST_A")->variable, "INGOT_TEST_A");
}

TEST_F(Env, EverySettingIsLookedUpOnItsOwn) {
  set("INGOT_TEST_A", "1");
  set("RUST_AI_TEST_B", "7");
  EXPECT_EQ(env_flag("TEST_A"), true);
  EXPECT_EQ(env_int("TEST_B", 0, 10), 7);
}

TEST_F(Env, AnEmptyVariableCountsAsNotSet) {
  set("INGOT_TEST_A", "");
  set("RUST_AI_TEST_A", "x");
  EXPECT_EQ(env_setting("TEST_A")->variable, "RUST_AI_TEST_A");
}

TEST_F(Env, FlagsTakeTheUsualWordsAndNameTheVariableOtherwise) {
  for (const char* word : {"1", "true", "TRUE", "Yes", "on"}) {
    set("INGOT_TEST_A", word);
    EXPECT_EQ(env_flag("TEST_A"), true) << word;
  }
  for (const char* word : {"0", "False", "no", "OFF"}) {
    set("INGOT_TEST_A", word);
    EXPECT_EQ(env_flag("TEST_A"), false) << word;
  }
  set("INGOT_TEST_A", "maybe");
  try {
    env_flag("TEST_A");
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "INGOT_TEST_A");
    EXPECT_NE(std::string(error.what()).find("got 'maybe'"), std::string::npos);
  }
}

TEST_F(Env, NumbersOutOfRangeOrWithARestAreErrors) {
  for (const char* text : {"-1", "11", "3x", "x", "99999999999999999999", "1.5"}) {
    set("INGOT_TEST_A", text);
    EXPECT_THROW(env_int("TEST_A", 0, 10), InvalidConfig) << text;
  }
}

}  // namespace
}  // namespace ingot
