#include "ingot/base/tensorboard.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/hash.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8U;
  return rotated >> 17 | rotated << 15;
}

template <class T>
T take(std::string_view& from) {
  T value{};
  EXPECT_GE(from.size(), sizeof(T));
  std::memcpy(&value, from.data(), sizeof(T));
  from.remove_prefix(sizeof(T));
  return value;
}

/// The records of a TFRecord file, every checksum checked.
std::vector<std::string> records(const std::string& path) {
  const std::string content = read_file(path);
  std::string_view rest = content;
  std::vector<std::string> result;
  while (!rest.empty()) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(unmask(take<std::uint32_t>(rest)), crc32c(length_bytes));
    result.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
    EXPECT_EQ(unmask(take<std::uint32_t>(rest)), crc32c(result.back()));
  }
  return result;
}

class TensorBoard : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "ingot_tensorboard";
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string root_;
};

/// An event without its first nine bytes: the tag of wall_time, and a time that differs from run to run.
std::string after_time(const std::string& event) { return event.substr(9); }

TEST_F(TensorBoard, AScalarIsTheBytesThatTheSchemaSays) {
  TensorBoardWriter writer(root_ + "/run");
  writer.scalar("loss", 1.5F, 300);
  writer.flush();
  const auto events = records(writer.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(after_time(events[0]),
            "\x1a\x0d"
            "brain.Event:2");
  // step = 300; summary { value { tag: "loss" simple_value: 1.5 } }
  const std::string expected = std::string("\x10\xac\x02") + "\x2a\x0d" + "\x0a\x0b" + "\x0a\x04loss" +
                               std::string("\x15\x00\x00\xc0\x3f", 5);
  EXPECT_EQ(after_time(events[1]), expected);
}

TEST_F(TensorBoard, TextIsAStringTensorOfTheTextPlugin) {
  TensorBoardWriter writer(root_);
  writer.text("sample", "**hi**", 0);
  writer.flush();
  const std::string event = records(writer.path()).at(1);
  EXPECT_NE(event.find("\x42\x06**hi**"), std::string::npos);
  EXPECT_NE(event.find("\x0a\x06\x0a\x04text"), std::string::npos);
}

TEST_F(TensorBoard, AResumedRunWritesItsOwnFileAndSaysWhereItStarts) {
  TensorBoardWriter first(root_);
  first.scalar("loss", 1, 1);
  TensorBoardWriter second(root_, 5);
  EXPECT_NE(first.path(), second.path());
  // step = 5; session_log { status: START }
  EXPECT_EQ(after_time(records(second.path()).at(1)), "\x10\x05\x3a\x02\x08\x01");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 2);
}

TEST_F(TensorBoard, WhatIsDestroyedHasBeenWritten) {
  std::string path;
  {
    TensorBoardWriter writer(root_);
    path = writer.path();
    for (int i = 0; i < 100; ++i) writer.scalar("a", 1, i);
  }
  EXPECT_EQ(records(path).size(), 101U);
}

// Not only our own reading of the schema: tools/check_tensorboard.py reads this with TensorBoard itself.
TEST_F(TensorBoard, ExampleForTheOriginalReader) {
  const char* directory = std::getenv("INGOT_TENSORBOARD_EXAMPLE");
  if (directory == nullptr) GTEST_SKIP() << "INGOT_TENSORBOARD_EXAMPLE names no directory to write to";
  TensorBoardWriter first(directory);
  for (int step = 0; step < 10; ++step) first.scalar("loss", static_cast<float>(step), step);
  first.text("sample", "**hi** 東京", 3);
  first.flush();
  TensorBoardWriter second(directory, 5);
  for (int step = 5; step < 8; ++step) second.scalar("loss", static_cast<float>(step) + 0.5F, step);
}

}  // namespace
}  // namespace ingot
