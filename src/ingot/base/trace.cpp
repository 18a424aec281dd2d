#include "ingot/base/trace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"

namespace ingot {
namespace trace {
namespace {

constexpr std::int64_t kMostEvents = 2'000'000;  // some 90 MB here, 300 MB of JSON
constexpr int kHost = 1;                         // process ids of the picture: the threads', then the groups'

struct Event {
  std::int64_t begin, end, number;
  std::uint32_t name, details;
  Row row;
  ScopeKind kind;
};

struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Ids = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

// What one thread recorded. Its lock is taken by others only when the trace ends.
struct Buffer {
  std::mutex mutex;
  int thread = 0;
  std::string thread_name;
  Ids names;
  std::vector<std::string> name_texts;
  std::vector<Event> events;

  std::uint32_t name_id(std::string_view name) {
    if (const auto found = names.find(name); found != names.end()) return found->second;
    name_texts.push_back(json_string(name));
    return names.emplace(name, static_cast<std::uint32_t>(name_texts.size() - 1)).first->second;
  }
};

struct CounterEvent {
  std::int64_t at;
  std::string name, members;
};

struct Recorder {
  std::mutex mutex;
  std::uint64_t generation = 0;  // of the trace that is alive; the next one's is higher
  std::int64_t start = 0;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::pair<std::string, std::string>> rows;  // group and name, from row 1 on
  std::vector<CounterEvent> counters;
  Ids details;
  std::vector<std::string> detail_texts;
  std::vector<std::function<void()>> before_end;
};

Recorder& recorder() {
  static Recorder instance;
  return instance;
}

std::atomic<std::uint64_t> live{0};  // the generation that records; 0: none
std::atomic<std::int64_t> events_taken{0};

struct ThisThread {
  std::uint64_t generation = 0;
  std::shared_ptr<Buffer> buffer;
  std::string name;
};
thread_local ThisThread this_thread;

// The calling thread's, of the trace that is alive; null where none is.
Buffer* buffer() {
  const std::uint64_t generation = live.load(std::memory_order_acquire);
  if (generation == 0) return nullptr;
  if (this_thread.generation == generation) return this_thread.buffer.get();
  auto fresh = std::make_shared<Buffer>();
  const bool main_thread = ::gettid() == ::getpid();
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.buffers.push_back(fresh);
  fresh->thread = static_cast<int>(r.buffers.size());
  fresh->thread_name = !this_thread.name.empty() ? this_thread.name
                       : main_thread             ? "main"
                                                 : fmt::format("thread {}", fresh->thread);
  this_thread.generation = generation;
  this_thread.buffer = std::move(fresh);
  return this_thread.buffer.get();
}

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

// Writes the members of "traceEvents", one a line.
class EventWriter {
 public:
  EventWriter(FileWriter& file, const Recorder& r) : file_(file), r_(r) {
    for (const auto& [group, name] : r.rows)
      if (std::ranges::find(groups_, group) == groups_.end()) groups_.push_back(group);
    process(kHost, "ingot");
    for (std::size_t i = 0; i < groups_.size(); ++i) process(kHost + 1 + static_cast<int>(i), groups_[i]);
    for (std::size_t i = 0; i < r.rows.size(); ++i) {
      const auto& [group, name] = r.rows[i];
      const auto at = std::ranges::find(groups_, group) - groups_.begin();
      rows_.push_back({kHost + 1 + static_cast<int>(at), static_cast<int>(i) + 1});
      label(rows_.back().first, rows_.back().second, "thread_name", name);
    }
  }

  void write(const Buffer& buffer) {
    label(kHost, buffer.thread, "thread_name", buffer.thread_name);
    for (const Event& e : buffer.events) {
      const auto [process, thread] =
          e.row == kThisThread ? std::pair(kHost, buffer.thread) : rows_[e.row - 1];
      std::string members = e.number != Scope::kNoNumber ? fmt::format("\"number\":{}", e.number) : "";
      const std::string details = e.details != 0 ? r_.detail_texts[e.details - 1] : "";
      if (!members.empty() && !details.empty()) members += ',';
      line(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"{}","name":{},"args":{{{}{}}}}})",
           process, thread, microseconds(e.begin - r_.start), microseconds(e.end - e.begin),
           ingot::name(e.kind), buffer.name_texts[e.name], members, details);
    }
  }
  void write(const CounterEvent& e) {
    line(R"({{"ph":"C","pid":{},"tid":0,"ts":{:.3f},"name":{},"args":{{{}}}}})", kHost,
         microseconds(e.at - r_.start), json_string(e.name), e.members);
  }

 private:
  void process(int id, std::string_view name) { label(id, 0, "process_name", name); }
  void label(int process, int thread, std::string_view what, std::string_view name) {
    line(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", process, thread, what,
         json_string(name));
  }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.clear();
    if (!std::exchange(first_, false)) text_ += ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    file_.write(text_);
  }

  FileWriter& file_;
  const Recorder& r_;
  std::vector<std::string> groups_;
  std::vector<std::pair<int, int>> rows_;  // process and thread of each
  std::string text_;
  bool first_ = true;
};

}  // namespace

bool active() { return live.load(std::memory_order_relaxed) != 0; }

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string json_string(std::string_view text) { return dump_json(nlohmann::json(text)); }

Row row(std::string_view group, std::string_view name) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  const auto is_it = [&](const auto& row) { return row.first == group && row.second == name; };
  const auto found = std::ranges::find_if(r.rows, is_it);
  const auto index = found - r.rows.begin();
  if (found == r.rows.end()) r.rows.emplace_back(group, name);
  return static_cast<Row>(index) + 1;
}

void name_thread(std::string_view name) { this_thread.name = name; }

Details details(std::string_view key, FunctionRef<std::string()> make) {
  if (!active()) return 0;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (const auto found = r.details.find(key); found != r.details.end()) return found->second;
  r.detail_texts.push_back(make());
  return r.details.emplace(key, static_cast<Details>(r.detail_texts.size())).first->second;
}

void add(const Span& span) {
  Buffer* b = buffer();
  if (b == nullptr || events_taken.fetch_add(1, std::memory_order_relaxed) >= kMostEvents) return;
  const std::lock_guard lock(b->mutex);
  b->events.push_back({.begin = span.begin,
                       .end = span.end,
                       .number = span.number,
                       .name = b->name_id(span.name),
                       .details = span.details,
                       .row = span.row,
                       .kind = span.kind});
}

void counter(std::string_view name, const std::vector<std::pair<std::string_view, double>>& values) {
  if (!active()) return;
  std::string members;
  for (const auto& [key, value] : values)
    members += fmt::format("{}{}:{}", members.empty() ? "" : ",", json_string(key), value);
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.counters.push_back({.at = now(), .name = std::string(name), .members = std::move(members)});
}

void before_end(std::function<void()> f) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.before_end.push_back(std::move(f));
}

namespace {

// Events of scopes that began before the trace, which another watcher opened, are of no use.
void keep_what_began(Recorder& r) {
  for (const auto& b : r.buffers) {
    const std::lock_guard lock(b->mutex);
    std::erase_if(b->events, [&](const Event& e) { return e.begin < r.start; });
  }
}

void write_file(const std::string& path, Recorder& r,
                const std::vector<std::pair<std::string, std::string>>& about, std::int64_t left_out) {
  write_file_atomically(path, [&](FileWriter& file) {
    nlohmann::ordered_json other = nlohmann::ordered_json::object();
    for (const auto& [key, value] : about) other[key] = value;
    other["events_left_out"] = left_out;
    file.write(fmt::format("{{\"displayTimeUnit\":\"ns\",\n\"otherData\":{},\n\"traceEvents\":[\n",
                           dump_json(other)));
    EventWriter writer(file, r);
    for (const auto& b : r.buffers) {
      const std::lock_guard lock(b->mutex);
      writer.write(*b);
    }
    for (const CounterEvent& e : r.counters) writer.write(e);
    file.write("\n]}\n");
  });
}

void clear(Recorder& r) {
  r.buffers.clear();
  r.rows.clear();
  r.counters.clear();
  r.details.clear();
  r.detail_texts.clear();
}

}  // namespace
}  // namespace trace

Trace::Trace(std::string path, std::vector<std::pair<std::string, std::string>> about)
    : path_(std::move(path)), about_(std::move(about)) {
  FileWriter(path_, FileWriter::Mode::append).close();  // now, not after hours, it is told that it cannot be
  trace::Recorder& r = trace::recorder();
  const std::lock_guard lock(r.mutex);
  INGOT_CHECK(!trace::active(), Error("a trace of this process is being recorded already; finish it first"));
  trace::clear(r);
  trace::events_taken.store(0);
  r.start = trace::now();
  trace::live.store(++r.generation, std::memory_order_release);
  watch_ = std::make_unique<ScopeWatch>();
}

Trace::~Trace() {
  if (watch_ == nullptr) return;
  trace::Recorder& r = trace::recorder();
  const std::lock_guard lock(r.mutex);
  trace::live.store(0);
  trace::clear(r);
}

void Trace::finish() {
  if (watch_ == nullptr) return;
  trace::Recorder& r = trace::recorder();
  std::vector<std::function<void()>> last;
  {
    const std::lock_guard lock(r.mutex);
    last = r.before_end;
  }
  for (const auto& f : last) f();
  watch_ = nullptr;
  const std::lock_guard lock(r.mutex);
  trace::live.store(0);
  const std::int64_t left_out = std::max<std::int64_t>(0, trace::events_taken.load() - trace::kMostEvents);
  if (left_out > 0)
    log(LogLevel::warn, "ingot::trace",
        fmt::format("{} holds the first {} events; {} came after them: trace fewer steps", path_,
                    trace::kMostEvents, left_out));
  trace::keep_what_began(r);
  trace::write_file(path_, r, about_, left_out);
  trace::clear(r);
}

}  // namespace ingot
