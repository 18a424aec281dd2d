#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace ingot {

enum class LogLevel { trace, debug, info, warn, error, off };

std::string_view to_string(LogLevel level);
/// "warn" and so on, in any case; InvalidConfig for anything else.
LogLevel parse_log_level(std::string_view text);

/// What is logged, how, and where to. Lines go to stderr and, if named, to a file as well.
struct LogConfig {
  LogLevel level = LogLevel::info;
  bool timestamps = true;
  bool target = true;      // the part of the program that speaks: "ingot::training"
  bool file_line = false;  // the location in the source
  bool color = true;       // on a terminal, and not under NO_COLOR
  bool json = false;       // one JSON object per line
  std::string file = {};   // appended to; empty: none

  static LogConfig development();  // debug, with everything
  static LogConfig production();   // info, time and message only, no colour
  static LogConfig testing();      // warnings, message only
  void validate() const;
};

/// Sets logging up, again if need be. The environment wins: INGOT_LOG (a level), INGOT_LOG_JSON (1 or 0),
/// INGOT_LOG_FILE. Without a call the first line logged sets up a default LogConfig.
void init_logging(LogConfig config = {});

/// For messages that are costly to build.
bool log_enabled(LogLevel level);

/// A named value beside a message.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, std::int64_t, double, bool> value;
};

/// A location in the source. As a default argument, that of the caller (std::source_location, which clang 14
/// cannot read from this standard library).
struct SourceLocation {
  const char* file;
  int line;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// One line. Fields follow the message as key=value, or are members of the JSON object. `target` names the
/// part of the program that speaks, as "ingot::data".
void log(LogLevel level, std::string_view target, std::string_view message,
         std::initializer_list<LogField> fields = {}, SourceLocation where = SourceLocation::current());

/// The same, but only the first time for each `key` in this process; true if it was that time.
bool log_once(LogLevel level, std::string_view key, std::string_view target, std::string_view message,
              SourceLocation where = SourceLocation::current());

/// "Training step", with step, total_steps, progress_pct, loss and lr, to ingot::training.
void log_training_step(std::int64_t step, std::int64_t total_steps, double loss, double lr,
                       SourceLocation where = SourceLocation::current());

/// "Memory usage", with allocated_mb, peak_mb and context, to ingot::memory, at debug.
void log_memory_usage(std::size_t allocated_bytes, std::size_t peak_bytes, std::string_view context,
                      SourceLocation where = SourceLocation::current());

/// "Metrics" with fields of the caller's, to ingot::metrics.
void log_metrics(std::initializer_list<LogField> fields, SourceLocation where = SourceLocation::current());

}  // namespace ingot
