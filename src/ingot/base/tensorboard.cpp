#include "ingot/base/tensorboard.h"

#include <array>
#include <atomic>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/protobuf_writer.h"

namespace ingot {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event: wall_time = 1, step = 2; what it is about follows.
ProtobufMessage event(std::int64_t step) {
  ProtobufMessage message;
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
    record(event(resume_step).message(kSessionLog, ProtobufMessage().varint(kStatus, kStart)).encoded());
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
  const ProtobufMessage item = ProtobufMessage().bytes(kTag, tag).fixed32(kSimpleValue, value);
  record(event(step).message(kSummary, ProtobufMessage().message(kValue, item)).encoded());
}

void TensorBoardWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  constexpr int kPluginData = 1, kPluginName = 1;                       // of SummaryMetadata, of PluginData
  constexpr int kDtype = 1, kShape = 2, kStringVal = 8, kDtString = 7;  // of TensorProto; DataType
  constexpr int kDim = 2, kSize = 1;                                    // of TensorShapeProto, of Dim
  const ProtobufMessage metadata =
      ProtobufMessage().message(kPluginData, ProtobufMessage().bytes(kPluginName, "text"));
  const ProtobufMessage shape = ProtobufMessage().message(kDim, ProtobufMessage().varint(kSize, 1));
  const ProtobufMessage tensor =
      ProtobufMessage().varint(kDtype, kDtString).message(kShape, shape).bytes(kStringVal, markdown);
  const ProtobufMessage item =
      ProtobufMessage().bytes(kTag, tag).message(kTensor, tensor).message(kMetadata, metadata);
  record(event(step).message(kSummary, ProtobufMessage().message(kValue, item)).encoded());
}

void TensorBoardWriter::flush() { file_.flush(); }

}  // namespace ingot
