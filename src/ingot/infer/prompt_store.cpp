#include "ingot/infer/prompt_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/trace.h"

namespace ingot::infer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "ingot-kv 1\n", kEnding = ".ingot-kv";
constexpr std::size_t kDigest = 32;
// Where writing falls behind by so much, what comes is not stored.
constexpr std::uint64_t kMostWaiting = std::uint64_t{512} << 20;

// Bytes of one token of one head.
std::size_t row_bytes(const Tensor& part) {
  return part.nbytes() / static_cast<std::size_t>(part.dim(0) * part.dim(1));
}

std::uint64_t block_bytes(std::span<const Tensor> parts, std::int64_t block) {
  std::uint64_t bytes = 0;
  for (const Tensor& part : parts) bytes += static_cast<std::uint64_t>(part.dim(0) * block) * row_bytes(part);
  return bytes;
}

// Calls `action` with the memory of tokens [at, at + block) of each head of each part.
template <class Action>
void for_each_row(std::span<const Tensor> parts, std::int64_t at, std::int64_t block, Action action) {
  for (const Tensor& part : parts) {
    const std::size_t row = row_bytes(part);
    for (std::int64_t head = 0; head < part.dim(0); ++head) {
      auto* first =
          static_cast<std::byte*>(part.view().data) + static_cast<std::size_t>(head * part.dim(1) + at) * row;
      action(std::span(first, static_cast<std::size_t>(block) * row));
    }
  }
}

std::string digest_of(const std::string& key, std::string_view payload) {
  Sha256 hash;
  hash.update(key);
  hash.update(payload);
  const auto digest = hash.finish();
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Of a file that was used just now. One that is gone meanwhile is none of ours to worry about. The kernel's
// own "now" is that of milliseconds ago for many files.
void touch(const std::string& path) {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::array<struct timespec, 2> times{now, now};
  static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0));
}

}  // namespace

PromptStore::PromptStore(PromptStoreOptions options, DType dtype)
    : options_(std::move(options)),
      root_(sha256_hex(
          fmt::format("{}{}\n{}\n{} tokens", kMagic, options_.model, ingot::name(dtype), options_.block))) {
  make_directories(options_.directory);
  thread_ = std::thread([this] { work(); });
}

PromptStore::~PromptStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<PromptStore::Key> PromptStore::keys(std::span<const std::int32_t> tokens,
                                                const std::string& adapter) const {
  Key key = adapter.empty() ? root_ : sha256_hex(root_ + adapter);
  std::vector<Key> keys;
  const auto block = static_cast<std::size_t>(options_.block);
  for (std::size_t at = 0; at + block <= tokens.size(); at += block) {
    Sha256 hash;
    hash.update(key);
    hash.update(std::as_bytes(tokens.subspan(at, block)));
    keys.push_back(key = hash.finish_hex());
  }
  return keys;
}

std::string PromptStore::file(const Key& key) const {
  return fmt::format("{}/{}{}", options_.directory, key, kEnding);
}

bool PromptStore::is_stored(const Key& key) const { return ::access(file(key).c_str(), R_OK) == 0; }

std::int64_t PromptStore::find(std::span<const std::int32_t> tokens, const std::string& adapter) const {
  const std::vector<Key> all = keys(tokens, adapter);
  const auto missing = std::ranges::find_if(all, [this](const Key& key) { return !is_stored(key); });
  return (missing - all.begin()) * options_.block;
}

void PromptStore::load(KvCache& cache, std::span<const std::int32_t> tokens, std::int64_t known,
                       const std::string& adapter) {
  const std::int64_t first = known / options_.block, begin = first * options_.block;
  const std::vector<Key> all = keys(tokens, adapter);
  const std::int64_t count = std::min(std::ssize(all), cache.capacity() / options_.block) - first;
  if (count <= 0) return;
  try {
    const std::vector<Tensor> parts = cache.host_memory(count * options_.block);
    std::int64_t read_blocks = 0;
    while (read_blocks < count &&
           read(all[static_cast<std::size_t>(first + read_blocks)], read_blocks * options_.block, parts))
      ++read_blocks;
    if (read_blocks == 0) return;
    cache.restore(begin, parts, read_blocks * options_.block);
    for (std::int64_t i = first + read_blocks; i-- > 0;) touch(file(all[static_cast<std::size_t>(i)]));
  } catch (const std::exception& error) {
    tell(fmt::format("{} was not read: {}", options_.directory, error.what()));
  }
}

// A file into the memory of its tokens; false where it is not there or not whole.
bool PromptStore::read(const Key& key, std::int64_t at, std::span<const Tensor> to) const {
  const std::string path = file(key);
  if (!is_stored(key)) return false;
  try {
    const std::string content = read_file(path);
    const std::size_t header = kMagic.size() + kDigest;
    const std::string_view payload = std::string_view(content).substr(std::min(header, content.size()));
    const bool whole = payload.size() == block_bytes(to, options_.block) && content.starts_with(kMagic) &&
                       digest_of(key, payload) == std::string_view(content).substr(kMagic.size(), kDigest);
    if (whole) {
      const char* from = payload.data();
      for_each_row(to, at, options_.block, [&](std::span<std::byte> row) {
        std::memcpy(row.data(), from, row.size());
        from += row.size();
      });
      return true;
    }
    tell(path + " is damaged, and removed");
    ::unlink(path.c_str());
  } catch (const std::exception& error) {
    tell(error.what());
  }
  return false;
}

void PromptStore::store(const KvCache& cache, std::span<const std::int32_t> tokens,
                        const std::string& adapter) {
  Order order{.keys = keys(tokens.first(static_cast<std::size_t>(cache.length())), adapter), .saved = {}};
  if (order.keys.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    const auto missing = std::ranges::find_if(
        order.keys, [this](const Key& key) { return !pending_.contains(key) && !is_stored(key); });
    order.first = static_cast<std::size_t>(missing - order.keys.begin());
  }
  std::int64_t count = std::ssize(order.keys) - static_cast<std::int64_t>(order.first);
  if (const std::uint64_t bytes = block_bytes(cache.host_memory(1), options_.block); count > 0) {
    const std::lock_guard lock(
        mutex_);  // the beginning of a long prompt at least; the rest when it comes again
    const std::uint64_t room = waiting_ < kMostWaiting ? kMostWaiting - waiting_ : 0;
    count = std::min(count, static_cast<std::int64_t>(room / bytes));
    order.keys.resize(order.first + static_cast<std::size_t>(count));
  }
  try {
    if (count > 0)
      order.saved =
          cache.saved(static_cast<std::int64_t>(order.first) * options_.block, count * options_.block);
  } catch (const std::exception& error) {
    return tell(fmt::format("a prompt was not stored: {}", error.what()));
  }
  for (const Tensor& part : order.saved) order.bytes += part.nbytes();
  const std::lock_guard lock(mutex_);
  if (waiting_ + order.bytes > kMostWaiting) return;
  waiting_ += order.bytes;
  pending_.insert(order.keys.begin() + static_cast<std::ptrdiff_t>(order.first), order.keys.end());
  orders_.push_back(std::move(order));
  changed_.notify_all();
}

void PromptStore::work() {
  trace::name_thread("prompt store");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !orders_.empty(); });
    if (orders_.empty()) return;
    const Order order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    try {
      carry_out(order);
    } catch (const std::exception& error) {
      tell(fmt::format("a prompt was not stored: {}", error.what()));
    }
    lock.lock();
    waiting_ -= order.bytes;
    for (std::size_t i = order.first; i < order.keys.size(); ++i) pending_.erase(order.keys[i]);
  }
}

void PromptStore::carry_out(const Order& order) {
  // The beginning of a prompt is used last, so that it goes last: without it the rest is of no use.
  const auto touch_from = [&](std::size_t end) {
    while (end-- > 0) touch(file(order.keys[end]));
  };
  touch_from(order.first);
  if (order.saved.empty()) return;
  const std::uint64_t bytes = block_bytes(order.saved, options_.block) + kMagic.size() + kDigest;
  const std::size_t room = static_cast<std::size_t>(options_.bytes / bytes);
  const std::size_t end = std::min(order.keys.size(), room);  // a prompt never evicts its own beginning
  if (end <= order.first) return;
  make_room(bytes * (end - order.first));
  for (std::size_t i = order.first; i < end; ++i)
    write(order.keys[i], static_cast<std::int64_t>(i - order.first) * options_.block, order.saved);
  touch_from(end);
}

void PromptStore::write(const Key& key, std::int64_t at, std::span<const Tensor> from) {
  std::string payload;
  payload.reserve(static_cast<std::size_t>(block_bytes(from, options_.block)));
  for_each_row(from, at, options_.block, [&](std::span<std::byte> row) {
    payload.append(reinterpret_cast<const char*>(row.data()), row.size());
  });
  write_file_atomically(file(key), [&](FileWriter& to) {
    to.write(kMagic);
    to.write(digest_of(key, payload));
    to.write(payload);
  });
}

// Removes the least recently used files until so many bytes more are within the limit.
void PromptStore::make_room(std::uint64_t bytes) const {
  struct File {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  std::uint64_t total = bytes;
  std::error_code gone;  // files of other processes come and go
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.directory, gone)) {
    if (entry.path().extension() != kEnding) continue;
    File file{.used = entry.last_write_time(gone), .bytes = entry.file_size(gone), .path = entry.path()};
    if (gone) continue;
    total += file.bytes;
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &File::used);
  for (const File& file : files) {
    if (total <= options_.bytes) return;
    fs::remove(file.path, gone);
    total -= file.bytes;
  }
}

// Once: a server would say it with every request.
void PromptStore::tell(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  const LogLevel level = std::exchange(told_, true) ? LogLevel::debug : LogLevel::warn;
  log(level, "ingot::infer", "prompt cache: " + what + "; such prompts are read again");
}

}  // namespace ingot::infer
