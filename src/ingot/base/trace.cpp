#include "ingot/base/trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/base/trace_events.h"
#include "ingot/base/trace_writer.h"

namespace ingot {
namespace trace {
namespace {

constexpr std::size_t kMostWaiting = 256;  // chunks, of 160 kB; who records faster than that waits
constexpr std::size_t kSamplesAtOnce = 1024;

struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Numbers for texts, from 0 on, in the order in which they first came. Texts stay where they are.
template <class Key>
struct Interned {
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> ids;
  std::deque<Key> all;

  std::uint32_t id(std::string_view text) {
    if (const auto found = ids.find(text); found != ids.end()) return found->second;
    all.push_back(Key(std::string(text)));
    return ids.emplace(text, static_cast<std::uint32_t>(all.size() - 1)).first->second;
  }
};

// Threads that still record when their trace is over keep theirs.
struct Tables {
  Interned<std::string> names;
  Interned<DetailRecord> details;
};

// What one thread recorded since its last full chunk, and what it interned most recently, which it finds
// again without a lock.
struct Buffer {
  static constexpr std::size_t kCached = 1024;
  struct CachedName {
    const char* address = nullptr;
    const std::string* text = nullptr;
    std::uint32_t id = 0;
  };
  struct CachedDetails {
    std::uint64_t hash = 0;
    const DetailRecord* record = nullptr;
    Details id = 0;
  };

  std::uint64_t generation = 0;
  std::shared_ptr<Chunk> chunk;
  std::shared_ptr<Tables> tables;
  std::array<CachedName, kCached> names;
  std::array<CachedDetails, kCached> details;
};

struct Recorder {
  std::mutex mutex;
  std::condition_variable work, room;  // for the writing thread; for those that wait for it
  std::uint64_t generation = 0;        // of the trace that is alive; the next one's is higher
  bool recording = false;
  bool kept = false;      // of one that ends: its file is wanted
  bool dropping = false;  // no more events are kept: the file is full, or cannot be written
  std::int64_t start = 0, left_out = 0;
  int threads = 0;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<Chunk>> unused;
  std::shared_ptr<Tables> tables = std::make_shared<Tables>();
  std::size_t names_told = 0, details_told = 0, rows_told = 0, series_told = 0;
  std::vector<std::pair<std::string, std::string>> rows;  // group and name, from row 1 on
  std::vector<Series> series;
  std::vector<std::vector<double>> last_values;  // of each series
  Batch waiting;                                 // chunks, threads, samples
  std::vector<std::function<void()>> before_end;

  std::shared_ptr<Chunk> chunk_for(int thread) {
    std::shared_ptr<Chunk> chunk;
    if (unused.empty()) {
      chunk = std::make_shared_for_overwrite<Chunk>();
    } else {
      chunk = std::move(unused.back());
      unused.pop_back();
    }
    chunk->thread = thread;
    chunk->size.store(0, std::memory_order_relaxed);
    return chunk;
  }

  void push(std::shared_ptr<Chunk> chunk) {
    waiting.chunks.push_back(std::move(chunk));
    work.notify_one();
  }

  // What the writer does not know yet.
  Batch take() {
    Batch batch = std::exchange(waiting, {});
    const auto& names = tables->names.all;
    const auto& details = tables->details.all;
    batch.names.reserve(names.size() - names_told);
    for (; names_told < names.size(); ++names_told) batch.names.push_back(&names[names_told]);
    batch.details.reserve(details.size() - details_told);
    for (; details_told < details.size(); ++details_told) batch.details.push_back(&details[details_told]);
    batch.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(rows_told), rows.end());
    rows_told = rows.size();
    batch.series.assign(series.begin() + static_cast<std::ptrdiff_t>(series_told), series.end());
    series_told = series.size();
    return batch;
  }

  void clear() {
    buffers.clear();
    unused.clear();
    tables = std::make_shared<Tables>();
    names_told = details_told = rows_told = series_told = 0;
    rows.clear();
    series.clear();
    last_values.clear();
    waiting = {};
    threads = 0;
    left_out = 0;
    dropping = kept = false;
  }
};

// Threads that end after main() still find it.
Recorder& recorder() {
  static auto* instance = new Recorder;  // NOLINT(cppcoreguidelines-owning-memory)
  return *instance;
}

std::atomic<std::uint64_t> live{0};  // the generation that records; 0: none

struct ThisThread {
  std::shared_ptr<Buffer> buffer;
  std::string name;

  ThisThread() = default;
  ThisThread(const ThisThread&) = delete;
  ThisThread& operator=(const ThisThread&) = delete;
  // Leaves no memory behind: there may be a thread for each of many requests.
  ~ThisThread() {
    if (buffer == nullptr) return;
    Recorder& r = recorder();
    const std::lock_guard lock(r.mutex);
    if (!r.recording || buffer->generation != r.generation) return;
    std::erase(r.buffers, buffer);
    if (r.dropping) {
      r.left_out += buffer->chunk->size.load(std::memory_order_relaxed);
    } else {
      r.push(buffer->chunk);
    }
  }
};
thread_local ThisThread this_thread;

Buffer* make_buffer() {
  Recorder& r = recorder();
  auto fresh = std::make_shared<Buffer>();
  const bool main_thread = ::gettid() == ::getpid();
  const std::lock_guard lock(r.mutex);
  if (!r.recording) return nullptr;
  const int thread = ++r.threads;
  fresh->generation = r.generation;
  fresh->chunk = r.chunk_for(thread);
  fresh->tables = r.tables;
  r.buffers.push_back(fresh);
  r.waiting.threads.emplace_back(thread, !this_thread.name.empty() ? this_thread.name
                                         : main_thread             ? "main"
                                                                   : fmt::format("thread {}", thread));
  this_thread.buffer = std::move(fresh);
  return this_thread.buffer.get();
}

// The calling thread's, of the trace that is alive; null where none is.
Buffer* buffer() {
  const std::uint64_t generation = live.load(std::memory_order_acquire);
  if (generation == 0) return nullptr;
  Buffer* own = this_thread.buffer.get();
  return own != nullptr && own->generation == generation ? own : make_buffer();
}

// Gives the writer a full chunk for an empty one. False where the trace is over.
bool replace_chunk(Buffer& own) {
  Recorder& r = recorder();
  std::unique_lock lock(r.mutex);
  const auto over = [&] { return !r.recording || own.generation != r.generation; };
  r.room.wait(lock, [&] { return over() || r.dropping || r.waiting.chunks.size() < kMostWaiting; });
  if (over()) return false;  // the writer may be reading this one
  if (r.dropping) {
    r.left_out += Chunk::kEvents;
    own.chunk->size.store(0, std::memory_order_relaxed);
    return true;
  }
  const int thread = own.chunk->thread;
  r.push(std::exchange(own.chunk, nullptr));
  own.chunk = r.chunk_for(thread);
  return true;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = bytes.size(), word = 0;
  for (; bytes.size() >= sizeof(word); bytes = bytes.subspan(sizeof(word))) {
    std::memcpy(&word, bytes.data(), sizeof(word));
    hash = mixed(hash, word);
  }
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  return mixed(hash, word);
}

// Most names are literals or stand in a model: they come again at their address. What stands there now is
// compared, for memory is reused.
std::uint32_t name_id(Buffer& own, std::string_view name) {
  const auto slot = mixed(name.size(), reinterpret_cast<std::uintptr_t>(name.data())) % Buffer::kCached;
  Buffer::CachedName& cached = own.names[slot];
  if (cached.address == name.data() && *cached.text == name) return cached.id;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (r.dropping) return 0;  // nobody reads the event
  auto& names = own.tables->names;
  const std::uint32_t id = names.id(name);
  cached = {.address = name.data(), .text = &names.all[id], .id = id};
  return id;
}

}  // namespace

bool active() { return live.load(std::memory_order_relaxed) != 0; }

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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

Details details(std::span<const std::byte> record, DetailFormat format) {
  Buffer* own = buffer();
  if (own == nullptr) return 0;
  const std::uint64_t hash = mixed(hash_of(record), reinterpret_cast<std::uintptr_t>(format));
  Buffer::CachedDetails& cached = own->details[hash % Buffer::kCached];
  if (cached.record != nullptr && cached.hash == hash && cached.record->is(record, format)) return cached.id;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (r.dropping) return 0;
  auto& all = own->tables->details;
  const std::uint32_t id = all.id(DetailRecord::key(record, format));
  cached = {.hash = hash, .record = &all.all[id], .id = id + 1};
  return cached.id;
}

void add(const Span& span) {
  Buffer* own = buffer();
  if (own == nullptr) return;
  std::uint32_t size = own->chunk->size.load(std::memory_order_relaxed);
  if (size == Chunk::kEvents) {
    if (!replace_chunk(*own)) return;
    size = 0;
  }
  own->chunk->events[size] = {.begin = span.begin,
                              .end = span.end,
                              .number = span.number,
                              .name = name_id(*own, span.name),
                              .details = span.details,
                              .row = span.row,
                              .shown_from = span.shown_from,
                              .kind = span.kind};
  own->chunk->size.store(size + 1, std::memory_order_release);
}

void counter(std::string_view name, std::span<const std::string_view> keys, std::span<const double> values) {
  if (!active()) return;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  if (!r.recording || r.dropping) return;
  const auto found = std::ranges::find(r.series, name, &Series::name);
  const auto index = static_cast<std::size_t>(found - r.series.begin());
  if (found == r.series.end()) {
    r.series.push_back({.name = std::string(name), .keys = {keys.begin(), keys.end()}});
    r.last_values.emplace_back();
  }
  // A graph keeps its height until the next value.
  if (std::ranges::equal(r.last_values[index], values)) return;
  r.last_values[index].assign(values.begin(), values.end());
  r.waiting.samples.push_back(
      {.at = now(), .series = static_cast<std::uint32_t>(index), .first_value = r.waiting.values.size()});
  r.waiting.values.insert(r.waiting.values.end(), values.begin(), values.end());
  if (r.waiting.samples.size() % kSamplesAtOnce == 0) r.work.notify_one();
}

void before_end(std::function<void()> f) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.before_end.push_back(std::move(f));
}

namespace {

struct Abandoned {};  // the writer's way out of a file that nobody wants

// Waits for work. The last batch has what stands in chunks that are not full.
Batch next_batch(Recorder& r) {
  std::unique_lock lock(r.mutex);
  r.work.wait(lock, [&] {
    return !r.recording || !r.waiting.chunks.empty() || r.waiting.samples.size() >= kSamplesAtOnce;
  });
  Batch batch = r.take();
  r.room.notify_all();
  if (!r.recording) {
    if (!r.kept) throw Abandoned();
    for (const auto& own : r.buffers) batch.chunks.push_back(own->chunk);
    batch.last = true;
  }
  for (const auto& chunk : batch.chunks) batch.sizes.push_back(chunk->size.load(std::memory_order_acquire));
  return batch;
}

void give_back(Recorder& r, Batch& batch, bool full) {
  const std::lock_guard lock(r.mutex);
  if (batch.last) return;  // threads may still be at them
  for (auto& chunk : batch.chunks)
    if (r.unused.size() < kMostWaiting) r.unused.push_back(std::move(chunk));
  r.dropping = full;
  if (full) r.room.notify_all();
}

}  // namespace
}  // namespace trace

// The thread that writes.
struct Trace::Writing {
  std::vector<std::pair<std::string, std::string>> about;
  std::int64_t most_events;
  std::int64_t left_out = 0;
  std::exception_ptr failure;
  std::thread thread;

  void run(const std::string& path) {
    trace::Recorder& r = trace::recorder();
    try {
      write_file_atomically(path, [&](FileWriter& file) { write(file, r); });
    } catch (const trace::Abandoned&) {
      return;
    } catch (...) {
      failure = std::current_exception();
      const std::lock_guard lock(r.mutex);
      r.dropping = true;
      r.room.notify_all();
    }
  }

  void write(FileWriter& file, trace::Recorder& r) {
    trace::Writer writer(file, r.start, most_events);
    for (bool last = false; !last;) {
      trace::Batch batch = trace::next_batch(r);
      last = batch.last;
      writer.write(batch);
      trace::give_back(r, batch, writer.is_full());
    }
    writer.finish(about, r.left_out);
    left_out = writer.left_out() + r.left_out;
  }

  void end(bool kept) {
    trace::Recorder& r = trace::recorder();
    {
      const std::lock_guard lock(r.mutex);
      trace::live.store(0);
      r.recording = false;
      r.kept = kept;
      r.work.notify_all();
      r.room.notify_all();
    }
    thread.join();
    const std::lock_guard lock(r.mutex);
    r.clear();
  }
};

Trace::Trace(std::string path, std::vector<std::pair<std::string, std::string>> about,
             std::int64_t most_events)
    : path_(std::move(path)) {
  FileWriter(path_, FileWriter::Mode::append).close();  // now, not after hours, it is told that it cannot be
  auto writing = std::make_unique<Writing>();
  writing->about = std::move(about);
  writing->most_events = most_events;
  trace::Recorder& r = trace::recorder();
  const std::lock_guard lock(r.mutex);
  INGOT_CHECK(!r.recording, Error("a trace of this process is being recorded already; finish it first"));
  r.clear();
  r.start = trace::now();
  writing->thread = std::thread([w = writing.get(), this] { w->run(path_); });
  r.recording = true;
  trace::live.store(++r.generation, std::memory_order_release);
  watch_ = std::make_unique<ScopeWatch>();
  writing_ = std::move(writing);
}

Trace::~Trace() {
  watch_ = nullptr;
  if (writing_ != nullptr) writing_->end(false);
}

void Trace::finish() {
  if (writing_ == nullptr) return;
  std::vector<std::function<void()>> last;
  {
    trace::Recorder& r = trace::recorder();
    const std::lock_guard lock(r.mutex);
    last = r.before_end;
  }
  for (const auto& f : last) f();
  watch_ = nullptr;
  const auto writing = std::move(writing_);
  writing->end(true);
  if (writing->failure) std::rethrow_exception(writing->failure);
  if (writing->left_out > 0)
    log(LogLevel::warn, "ingot::trace",
        fmt::format("{} holds the first {} events; {} came after them: trace fewer steps", path_,
                    writing->most_events, writing->left_out));
}

}  // namespace ingot
