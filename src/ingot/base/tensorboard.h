#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ingot/base/files.h"

namespace ingot {

/// Writes what TensorBoard shows: one event file per writer, in TFRecord framing (length and masked CRC-32C
/// around each record) with the `Event` messages of tensorboard/compat/proto/event.proto.
class TensorBoardWriter {
 public:
  /// Starts a new file in `directory`, which is made if need be. TensorBoard reads all files of a directory
  /// as one run, so a resumed run only needs a writer of its own: with resume_step > 0 it tells TensorBoard
  /// to forget what the interrupted run wrote at that step and later.
  explicit TensorBoardWriter(const std::string& directory, std::int64_t resume_step = 0);
  ~TensorBoardWriter();  // flushes; failures then are logged, not thrown

  void scalar(std::string_view tag, float value, std::int64_t step);
  /// Markdown, under TensorBoard's "Text".
  void text(std::string_view tag, std::string_view markdown, std::int64_t step);

  /// Hands what was written to the operating system; call it now and then, so that TensorBoard sees it.
  void flush();
  const std::string& path() const { return file_.path(); }

 private:
  void record(std::string_view event);
  FileWriter file_;
};

}  // namespace ingot
