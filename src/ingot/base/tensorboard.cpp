#include "ingot/base/tensorboard.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"

namespace ingot {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

/// A protobuf message under construction (protobuf.dev/programming-guides/encoding).
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    tag(field, 0);
    raw_varint(value);
    return *this;
  }
  Message& fixed64(int field, double value) {
    tag(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  Message& fixed32(int field, float value) {
    tag(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  const std::string& encoded() const { return bytes_; }

 private:
  void tag(int field, int wire_type) { raw_varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event: wall_time = 1, step = 2; what it is about follows.
Message event(std::int64_t step) {
  Message message;
  message.fixed64(1, wall_time());
  if (step != 0) message.varint(2, static_cast<std::uint64_t>(step));
  return message;
}

std::string new_path(const std::string& directory) {
  make_directories(directory);
  static std::atomic<int> count{0};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  // TensorBoard reads the files of a run in the order of their names, so the time comes first.
  return fmt::format("{}/events.out.tfevents.{:010.0f}.{}.{}.{}", directory, wall_time(), host.data(),
                     getpid(), count++);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& directory, std::int64_t resume_step)
    : file_(new_path(directory), FileWriter::Mode::append) {
  record(event(0).bytes(3, "brain.Event:2").encoded());  // file_version
  if (resume_step > 0) {
    constexpr int kSessionLog = 7, kStatus = 1, kStart = 1;
    record(event(resume_step).message(kSessionLog, Message().varint(kStatus, kStart)).encoded());
  }
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error& error) {
    log(LogLevel::error, "ingot::tensorboard", error.what());
  }
}

void TensorBoardWriter::record(std::string_view event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  file_.write(length);
  file_.write(little_endian(masked_crc32c(length)));
  file_.write(event);
  file_.write(little_endian(masked_crc32c(event)));
}

namespace {

constexpr int kSummary = 5;                                            // of Event
constexpr int kValue = 1;                                              // of Summary
constexpr int kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;  // of Summary.Value

}  // namespace

void TensorBoardWriter::scalar(std::string_view tag, float value, std::int64_t step) {
  const Message item = Message().bytes(kTag, tag).fixed32(kSimpleValue, value);
  record(event(step).message(kSummary, Message().message(kValue, item)).encoded());
}

void TensorBoardWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  constexpr int kPluginData = 1, kPluginName = 1;                       // of SummaryMetadata, of PluginData
  constexpr int kDtype = 1, kShape = 2, kStringVal = 8, kDtString = 7;  // of TensorProto; DataType
  constexpr int kDim = 2, kSize = 1;                                    // of TensorShapeProto, of Dim
  const Message metadata = Message().message(kPluginData, Message().bytes(kPluginName, "text"));
  const Message shape = Message().message(kDim, Message().varint(kSize, 1));
  const Message tensor =
      Message().varint(kDtype, kDtString).message(kShape, shape).bytes(kStringVal, markdown);
  const Message item = Message().bytes(kTag, tag).message(kTensor, tensor).message(kMetadata, metadata);
  record(event(step).message(kSummary, Message().message(kValue, item)).encoded());
}

void TensorBoardWriter::flush() { file_.flush(); }

}  // namespace ingot
