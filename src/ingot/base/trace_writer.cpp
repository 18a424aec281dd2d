#include "ingot/base/trace_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"

namespace ingot::trace {
namespace {

constexpr int kHost = 1;  // process ids of the picture: the threads', then the groups'
constexpr std::size_t kWriteAt = 1 << 16;

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

std::string event_prefix(int process, int thread) {
  return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":)", process, thread);
}

}  // namespace

std::string json_string(std::string_view text) { return dump_json(nlohmann::json(text)); }

std::string DetailRecord::key(std::span<const std::byte> record, DetailFormat format) {
  std::string key(sizeof(format) + record.size(), '\0');
  std::memcpy(key.data(), &format, sizeof(format));
  if (!record.empty()) std::memcpy(key.data() + sizeof(format), record.data(), record.size());
  return key;
}

DetailFormat DetailRecord::format() const {
  DetailFormat format = nullptr;
  std::memcpy(&format, key_.data(), sizeof(format));
  return format;
}

bool DetailRecord::is(std::span<const std::byte> record, DetailFormat format) const {
  const auto own = bytes();
  return own.size() == record.size() && this->format() == format &&
         (own.empty() || std::memcmp(own.data(), record.data(), own.size()) == 0);
}

std::string DetailRecord::text() const { return format()(bytes()); }

Writer::Writer(FileWriter& file, std::int64_t start, std::int64_t most_events)
    : file_(file), start_(start), room_(most_events) {
  text_.reserve(kWriteAt + (kWriteAt >> 2));
  text_ = "{\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[\n";
  label(kHost, 0, "process_name", "ingot");
}

void Writer::write(const Batch& batch) {
  for (const std::string* name : batch.names)
    names_.push_back({.text = name, .json = json_string(*name), .plain = is_plain(*name)});
  for (const DetailRecord* record : batch.details) details_.push_back(record->text());
  for (const auto& [thread, name] : batch.threads) label(kHost, thread, "thread_name", name);
  for (const auto& [group, name] : batch.rows) add_row(group, name);
  for (const Series& series : batch.series) add_series(series);
  for (std::size_t i = 0; i < batch.chunks.size(); ++i) write(*batch.chunks[i], batch.sizes[i]);
  for (const Sample& sample : batch.samples) write(sample, batch.values);
  file_.write(text_);
  text_.clear();
}

void Writer::finish(const std::vector<std::pair<std::string, std::string>>& about, std::int64_t left_out) {
  nlohmann::ordered_json other = nlohmann::ordered_json::object();
  for (const auto& [key, value] : about) other[key] = value;
  other["events_left_out"] = left_out_ + left_out;
  text_ += "\n],\n\"otherData\":" + dump_json(other) + "}\n";
  file_.write(text_);
  text_.clear();
}

void Writer::write(const Chunk& chunk, std::uint32_t size) {
  const std::string prefix = event_prefix(kHost, chunk.thread);
  for (std::uint32_t i = 0; i < size; ++i) {
    const Event& event = chunk.events[i];
    // Of scopes that another watcher opened before the trace only the end is known.
    if (event.begin < start_) continue;
    if (room_ == 0) {
      ++left_out_;
      continue;
    }
    --room_;
    write(event, prefix);
    if (text_.size() < kWriteAt) continue;
    file_.write(text_);
    text_.clear();
  }
}

void Writer::write(const Event& event, std::string_view thread_prefix) {
  begin_line();
  text_ += event.row == kThisThread ? thread_prefix : std::string_view(row_prefixes_[event.row - 1]);
  append_microseconds(event.begin - start_);
  text_ += ",\"dur\":";
  append_microseconds(std::max<std::int64_t>(0, event.end - event.begin));
  text_ += ",\"cat\":\"";
  text_ += ingot::name(event.kind);
  text_ += "\",\"name\":";
  write_name(event);
  text_ += ",\"args\":{";
  const std::size_t before = text_.size();
  const auto separate = [&] {
    if (text_.size() != before) text_ += ',';
  };
  if (event.number != Scope::kNoNumber) {
    text_ += "\"number\":";
    append(event.number);
  }
  if (event.kind == ScopeKind::module) {
    separate();
    text_ += "\"module\":";
    text_ += names_[event.name].json;
  }
  if (event.details != 0) {
    separate();
    text_ += details_[event.details - 1];
  }
  text_ += "}}";
}

void Writer::write_name(const Event& event) {
  const Name& name = names_[event.name];
  if (event.shown_from == 0) {
    text_ += name.json;
    return;
  }
  const std::string_view shown = std::string_view(*name.text).substr(event.shown_from);
  if (!name.plain) {
    text_ += json_string(shown);
    return;
  }
  text_ += '"';
  text_ += shown;
  text_ += '"';
}

void Writer::write(const Sample& sample, const std::vector<double>& values) {
  const Graph& graph = graphs_[sample.series];
  begin_line();
  text_ += graph.prefix;
  append_microseconds(sample.at - start_);
  text_ += graph.name;
  for (std::size_t i = 0; i < graph.keys.size(); ++i) {
    text_ += graph.keys[i];
    append(values[sample.first_value + i]);
  }
  text_ += "}}";
}

void Writer::add_series(const Series& series) {
  Graph& graph = graphs_.emplace_back();
  graph.prefix = fmt::format(R"({{"ph":"C","pid":{},"tid":0,"ts":)", kHost);
  graph.name = ",\"name\":" + json_string(series.name) + ",\"args\":{";
  graph.keys.reserve(series.keys.size());
  for (const std::string& key : series.keys)
    graph.keys.push_back((graph.keys.empty() ? "" : ",") + json_string(key) + ":");
}

void Writer::add_row(const std::string& group, const std::string& name) {
  const auto found = std::ranges::find(groups_, group);
  const int process = kHost + 1 + static_cast<int>(found - groups_.begin());
  if (found == groups_.end()) {
    groups_.push_back(group);
    label(process, 0, "process_name", group);
  }
  const int thread = static_cast<int>(row_prefixes_.size()) + 1;
  row_prefixes_.push_back(event_prefix(process, thread));
  label(process, thread, "thread_name", name);
}

void Writer::label(int process, int thread, std::string_view what, std::string_view name) {
  begin_line();
  text_ += fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process, thread,
                       what, json_string(name));
}

void Writer::begin_line() {
  if (!std::exchange(first_, false)) text_ += ",\n";
}

void Writer::append(std::int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text_.append(digits.data(), end);
}

void Writer::append(double value) {
  if (!std::isfinite(value)) {
    text_ += "null";
  } else if (std::abs(value) < 1e15 && value == std::trunc(value)) {
    append(static_cast<std::int64_t>(value));
  } else {
    fmt::format_to(std::back_inserter(text_), "{}", value);
  }
}

// Microseconds with three decimals, as the format counts; `nanoseconds` is not negative.
void Writer::append_microseconds(std::int64_t nanoseconds) {
  append(nanoseconds / 1000);
  const auto rest = static_cast<int>(nanoseconds % 1000);
  const std::array<char, 4> decimals{'.', static_cast<char>('0' + rest / 100),
                                     static_cast<char>('0' + rest / 10 % 10),
                                     static_cast<char>('0' + rest % 10)};
  text_.append(decimals.data(), decimals.size());
}

}  // namespace ingot::trace
