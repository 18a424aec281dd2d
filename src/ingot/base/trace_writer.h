#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/files.h"
#include "ingot/base/trace_events.h"

namespace ingot::trace {

/// Writes batches as Chrome's trace JSON, one event a line.
class Writer {
 public:
  /// Events that began before `start` are left out; times count from it. So are those after the first
  /// `most_events`.
  Writer(FileWriter& file, std::int64_t start, std::int64_t most_events);
  void write(const Batch& batch);
  /// What remains of the document. `about`: what the file says of the run; `left_out`: events that were not
  /// handed over.
  void finish(const std::vector<std::pair<std::string, std::string>>& about, std::int64_t left_out);

  bool is_full() const { return room_ == 0; }
  /// Events that came after the first `most_events`.
  std::int64_t left_out() const { return left_out_; }

 private:
  struct Name {
    const std::string* text;
    std::string json;
    bool plain;  // a part of it is JSON without escapes
  };

  // A series as JSON, but for its numbers.
  struct Graph {
    std::string prefix, name;
    std::vector<std::string> keys;
  };

  void write(const Chunk& chunk, std::uint32_t size);
  void write(const Event& event, std::string_view thread_prefix);
  void write(const Sample& sample, const std::vector<double>& values);
  void write_name(const Event& event);
  void add_row(const std::string& group, const std::string& name);
  void add_series(const Series& series);
  void label(int process, int thread, std::string_view what, std::string_view name);
  void begin_line();
  void append(std::int64_t number);
  void append(double value);
  void append_microseconds(std::int64_t nanoseconds);

  FileWriter& file_;
  std::int64_t start_, room_, left_out_ = 0;
  std::string text_;
  bool first_ = true;
  std::vector<Name> names_;
  std::vector<std::string> details_;
  std::vector<std::string> groups_;
  std::vector<std::string> row_prefixes_;
  std::vector<Graph> graphs_;
};

}  // namespace ingot::trace
