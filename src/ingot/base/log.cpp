#include "ingot/base/log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/progress.h"
#include "ingot/base/suggest.h"

namespace ingot {
namespace {

constexpr int kLevels = 6;
constexpr const char* kNames[kLevels] = {"trace", "debug", "info", "warn", "error", "off"};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  static constexpr spdlog::level::level_enum kTable[kLevels] = {spdlog::level::trace, spdlog::level::debug,
                                                                spdlog::level::info,  spdlog::level::warn,
                                                                spdlog::level::err,   spdlog::level::off};
  return kTable[static_cast<int>(level)];
}

/// stderr, with the progress bar out of the way while a line is written.
class TerminalSink : public spdlog::sinks::ansicolor_stderr_sink_mt {
 public:
  using Base = spdlog::sinks::ansicolor_stderr_sink_mt;
  explicit TerminalSink(spdlog::color_mode mode) : Base(mode) {}
  void log(const spdlog::details::log_msg& message) override {
    const ProgressPause pause;
    Base::log(message);
  }
};

/// The level under our own name: "warn", padded, where spdlog says "warning".
class LevelFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string_view name = spdlog::level::to_short_c_str(message.level);
    for (int i = 0; i < kLevels; ++i) {
      if (spdlog_level(static_cast<LogLevel>(i)) == message.level) name = kNames[i];
    }
    out.append(name.data(), name.data() + name.size());
    for (std::size_t i = name.size(); i < 5; ++i) out.push_back(' ');
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<LevelFlag>();
  }
};

struct Logging {
  LogConfig config;
  std::shared_ptr<spdlog::logger> logger;
};

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

/// Lines log with the set-up that was current when they began; it is never changed in place.
std::shared_ptr<const Logging>& current() {
  static std::shared_ptr<const Logging> instance;
  return instance;
}

void apply_environment(LogConfig& config) {
  // Environment: INGOT_LOG | what is logged to stderr: `error`, `warn`, `info` (default), `debug`, `trace`,
  // `off`
  if (const auto level = env_setting("LOG")) {
    try {
      config.level = parse_log_level(level->value);
    } catch (const InvalidConfig& error) {
      throw InvalidConfig(level->variable, error.what());
    }
  }
  // Environment: INGOT_LOG_FILE, INGOT_LOG_JSON=1 | a file for the log; lines of JSON
  if (const auto json = env_flag("LOG_JSON")) config.json = *json;
  if (const auto file = env_setting("LOG_FILE")) config.file = file->value;
}

/// What spdlog puts before our own text. Under JSON the line is ours altogether.
std::string pattern_of(const LogConfig& config) {
  if (config.json) return "%v";
  std::string pattern;
  if (config.timestamps) pattern += "%Y-%m-%dT%H:%M:%S.%e%z ";
  pattern += "%^%*%$ ";
  return pattern + "%v" + (config.file_line ? " (%s:%#)" : "");
}

std::shared_ptr<const Logging> make_logging(LogConfig config) {
  config.validate();
  std::vector<spdlog::sink_ptr> sinks;
  const bool color = config.color && std::getenv("NO_COLOR") == nullptr;
  sinks.push_back(
      std::make_shared<TerminalSink>(color ? spdlog::color_mode::automatic : spdlog::color_mode::never));
  if (!config.file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(config.file));
    } catch (const spdlog::spdlog_ex& error) {
      throw IoError(config.file, fmt::format("cannot write the log there: {}", error.what()));
    }
  }
  auto logger = std::make_shared<spdlog::logger>("ingot", sinks.begin(), sinks.end());
  logger->set_level(spdlog_level(config.level));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelFlag>('*').set_pattern(pattern_of(config));
  logger->set_formatter(std::move(formatter));
  logger->flush_on(spdlog::level::info);
  return std::make_shared<const Logging>(Logging{std::move(config), std::move(logger)});
}

std::shared_ptr<const Logging> logging() {
  const std::lock_guard lock(mutex());
  if (!current()) {
    LogConfig config;
    apply_environment(config);
    current() = make_logging(std::move(config));
  }
  return current();
}

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, milliseconds);
}

nlohmann::ordered_json json_value(const LogField& field) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, double>) {
          // JSON has no NaN; a reader must still see that the loss was one.
          if (!std::isfinite(value)) return fmt::format("{}", value);
        }
        if constexpr (std::is_same_v<T, std::string_view>) return std::string(value);
        return value;
      },
      field.value);
}

std::string json_line(const Logging& to, LogLevel level, std::string_view target, std::string_view message,
                      std::initializer_list<LogField> fields, SourceLocation where) {
  nlohmann::ordered_json line;
  if (to.config.timestamps) line["time"] = time_text();
  line["level"] = to_string(level);
  if (to.config.target) line["target"] = target;
  line["message"] = message;
  if (to.config.file_line) line["source"] = fmt::format("{}:{}", where.file, where.line);
  for (const LogField& field : fields) line[std::string(field.key)] = json_value(field);
  // Text that is not UTF-8 must not cost the line.
  return printable_json(dump_json(line));
}

std::string text_line(const Logging& to, std::string_view target, std::string_view message,
                      std::initializer_list<LogField> fields) {
  std::string line = to.config.target ? fmt::format("{}: {}", target, message) : std::string(message);
  for (const LogField& field : fields) {
    line += fmt::format(" {}=", field.key);
    std::visit(
        [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>)
            line += printable(value);
          else
            fmt::format_to(std::back_inserter(line), "{}", value);
        },
        field.value);
  }
  return printable(line);  // one line each, whatever names it holds
}

}  // namespace

std::string_view to_string(LogLevel level) { return kNames[static_cast<int>(level)]; }

LogLevel parse_log_level(std::string_view text) {
  for (int i = 0; i < kLevels; ++i) {
    if (edit_distance(text, kNames[i]) == 0) return static_cast<LogLevel>(i);
  }
  throw InvalidConfig("log level",
                      fmt::format("must be one of trace, debug, info, warn, error, off, got '{}'", text));
}

LogConfig LogConfig::development() { return {.level = LogLevel::debug, .file_line = true}; }
LogConfig LogConfig::production() { return {.target = false, .color = false}; }
LogConfig LogConfig::testing() {
  return {.level = LogLevel::warn, .timestamps = false, .target = false, .color = false};
}

void LogConfig::validate() const {
  INGOT_CHECK(level >= LogLevel::trace && level <= LogLevel::off,
              InvalidConfig("log level", fmt::format("{} is not a level", static_cast<int>(level))));
}

void init_logging(LogConfig config) {
  apply_environment(config);
  auto made = make_logging(std::move(config));
  const std::lock_guard lock(mutex());
  current() = std::move(made);
}

bool log_enabled(LogLevel level) { return level != LogLevel::off && level >= logging()->config.level; }

void log(LogLevel level, std::string_view target, std::string_view message,
         std::initializer_list<LogField> fields, SourceLocation where) {
  const auto to = logging();
  if (level == LogLevel::off || level < to->config.level) return;
  const std::string line = to->config.json ? json_line(*to, level, target, message, fields, where)
                                           : text_line(*to, target, message, fields);
  to->logger->log(spdlog::source_loc{where.file, where.line, ""}, spdlog_level(level),
                  spdlog::string_view_t(line));
}

bool log_once(LogLevel level, std::string_view key, std::string_view target, std::string_view message,
              SourceLocation where) {
  static std::mutex once;
  static std::set<std::string, std::less<>> seen;
  {
    const std::lock_guard lock(once);
    if (!seen.emplace(key).second) return false;
  }
  log(level, target, message, {}, where);
  return true;
}

void log_training_step(std::int64_t step, std::int64_t total_steps, double loss, double lr,
                       SourceLocation where) {
  if (!log_enabled(LogLevel::info)) return;
  const double percent =
      total_steps > 0 ? 100.0 * static_cast<double>(step) / static_cast<double>(total_steps) : 0.0;
  if (logging()->config.json) {  // numbers stay numbers for a program
    log(LogLevel::info, "ingot::training", "Training step",
        {{"step", step},
         {"total_steps", total_steps},
         {"progress_pct", std::round(percent * 10) / 10},
         {"loss", loss},
         {"lr", lr}},
        where);
    return;
  }
  const std::string percent_text = fmt::format("{:.1f}", percent), loss_text = fmt::format("{:.6f}", loss),
                    lr_text = fmt::format("{:.2e}", lr);
  log(LogLevel::info, "ingot::training", "Training step",
      {{"step", step},
       {"total_steps", total_steps},
       {"progress_pct", percent_text},
       {"loss", loss_text},
       {"lr", lr_text}},
      where);
}

void log_memory_usage(std::size_t allocated_bytes, std::size_t peak_bytes, std::string_view context,
                      SourceLocation where) {
  if (!log_enabled(LogLevel::debug)) return;
  const auto mb = [](std::size_t bytes) { return std::round(static_cast<double>(bytes) / 1e4) / 100; };
  log(LogLevel::debug, "ingot::memory", "Memory usage",
      {{"allocated_mb", mb(allocated_bytes)}, {"peak_mb", mb(peak_bytes)}, {"context", context}}, where);
}

void log_metrics(std::initializer_list<LogField> fields, SourceLocation where) {
  log(LogLevel::info, "ingot::metrics", "Metrics", fields, where);
}

}  // namespace ingot
