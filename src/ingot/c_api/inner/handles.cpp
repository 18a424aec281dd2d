#include "ingot/c_api/inner/handles.h"

#include <array>
#include <mutex>
#include <unordered_map>

namespace ingot::c_api {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects;
};

struct Registry {
  std::atomic<std::uintptr_t> last = 0;
  std::atomic<std::int64_t> open = 0;
  std::array<Shard, 64> shards;
  Shard& shard(std::uintptr_t id) { return shards[id % shards.size()]; }
};

// Lives to the end of the process: destructors of the caller's own statics may still close handles.
Registry& registry() {
  static auto* const the_registry = new Registry;
  return *the_registry;
}

constexpr int kShift =
    4;  // handles look like aligned addresses, which foreign-function interfaces may insist on

std::uintptr_t id_of(const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return (number & ((1U << kShift) - 1)) == 0 ? number >> kShift : 0;
}

}  // namespace

void* add_object(std::shared_ptr<Object> object) {
  Registry& all = registry();
  const std::uintptr_t id = ++all.last;
  Shard& shard = all.shard(id);
  const std::lock_guard lock(shard.mutex);
  shard.objects.emplace(id, std::move(object));
  ++all.open;
  return reinterpret_cast<void*>(
      id << kShift);  // NOLINT(performance-no-int-to-ptr): it is never read through
}

std::shared_ptr<Object> find_object(const void* handle) {
  const std::uintptr_t id = id_of(handle);
  Shard& shard = registry().shard(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.objects.find(id);
  return found == shard.objects.end() ? nullptr : found->second;
}

std::shared_ptr<Object> remove_object(const void* handle) {
  const std::uintptr_t id = id_of(handle);
  Shard& shard = registry().shard(id);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.objects.find(id);
  if (found == shard.objects.end()) return nullptr;
  std::shared_ptr<Object> object = std::move(found->second);
  shard.objects.erase(found);
  --registry().open;
  return object;  // its destructor, which may take long and close others, runs without the lock
}

std::int64_t open_objects() { return registry().open; }

void throw_invalid_handle(const void* handle, const char* wanted) {
  if (handle == nullptr) throw InvalidHandle(std::string("the handle of a ") + wanted + " is NULL");
  if (find_object(handle) != nullptr)
    throw InvalidHandle(std::string("the handle is open, but is not one of a ") + wanted);
  throw InvalidHandle(std::string("this is not an open handle of a ") + wanted +
                      ": it was closed, or was never given out");
}

}  // namespace ingot::c_api
