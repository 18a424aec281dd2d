#include "ingot/serve/model_pool.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/trace.h"
#include "ingot/base/units.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

using PoolClock = std::chrono::steady_clock;

// Weights are mapped or copied: about as large in memory as on the disk.
std::size_t weight_file_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    const std::uintmax_t size = fs::file_size(path, ignored);
    return ignored ? 0 : static_cast<std::size_t>(size);
  }
  std::size_t safetensors = 0, all = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(path, ignored)) {
    if (!file.is_regular_file(ignored)) continue;
    const auto bytes = static_cast<std::size_t>(file.file_size(ignored));
    all += bytes;
    if (file.path().extension() == ".safetensors") safetensors += bytes;
  }
  return safetensors > 0 ? safetensors : all;
}

// Loads an adapter again by `action`. Its files may have gone or changed: that is told, and false returned.
template <class Action>
bool load_again(const NamedAdapter& adapter, const Action& action) {
  try {
    action();
    return true;
  } catch (const OutOfMemory&) {
    throw;  // the files are right: the next request tries again
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    log(LogLevel::warn, "ingot::serve",
        fmt::format("the adapter '{}' could not be loaded again, and is unloaded: {}", adapter.name,
                    error.what()));
    return false;
  }
}

}  // namespace

struct ModelPool::Entry {
  const ServedModelOptions options;
  struct Adapter {
    NamedAdapter source;  // with its number, by which it is known after the model was unloaded, too
    bool added = false;   // by a request
    const std::string& name() const { return source.name; }
  };
  std::vector<std::string> names;
  std::vector<Adapter> adapters{};
  std::uint64_t adapters_loaded = 0;  // so far
  std::string default_adapter{};      // while the model is not loaded
  std::set<std::string> wanted{};     // adapters that requests wait for
  std::size_t bytes = 0;
  std::unique_ptr<ServedModel> model{};  // null: not loaded
  std::int64_t users = 0;
  PoolClock::time_point used{};
  bool leaving = false;  // to be unloaded as soon as its requests have ended
  bool queued = false;
  std::vector<std::function<void()>> waiting{};
  // Of adapters, by their numbers, while those who waited are told.
  std::map<std::uint64_t, std::exception_ptr> adapter_failures{};
  std::exception_ptr failure{};  // and of the model

  bool has(const std::string& name) const {
    return std::ranges::find(names, name) != names.end() ||
           std::ranges::find(adapters, name, &Adapter::name) != adapters.end();
  }
  void add(NamedAdapter adapter, bool by_request) {
    adapter.number = ++adapters_loaded;
    adapters.push_back({std::move(adapter), by_request});
  }
  // The adapter of this name and number, not another that has its name by now.
  bool has(const NamedAdapter& adapter) const {
    return std::ranges::any_of(adapters, [&](const Adapter& each) {
      return each.name() == adapter.name && each.source.number == adapter.number;
    });
  }
  void remove(const NamedAdapter& adapter) {
    std::erase_if(adapters, [&](const Adapter& each) {
      return each.name() == adapter.name && each.source.number == adapter.number;
    });
  }
  std::optional<NamedAdapter> adapter(const std::string& name) const {
    const auto found = std::ranges::find(adapters, name, &Adapter::name);
    return found == adapters.end() ? std::nullopt : std::optional(found->source);
  }
  std::vector<NamedAdapter> sources(bool by_request) const {
    std::vector<NamedAdapter> sources;
    for (const Adapter& each : adapters)
      if (each.added == by_request) sources.push_back(each.source);
    return sources;
  }
};

ModelPool::ModelPool(const std::vector<ServedModelOptions>& models, const ModelPoolOptions& options)
    : options_(options), created_(std::time(nullptr)) {
  INGOT_CHECK(!models.empty(), InvalidConfig("models", "is empty: a server needs a model"));
  for (const ServedModelOptions& model : models) {
    auto entry = std::make_unique<Entry>(Entry{.options = model, .names = names_of(model)});
    for (const NamedAdapter& adapter : model.session.named_adapters) entry->add(adapter, false);
    std::vector<std::string> names = entry->names;
    for (const Entry::Adapter& adapter : entry->adapters) names.push_back(adapter.name());
    for (const std::string& name : names) {
      const bool taken = std::ranges::any_of(entries_, [&](const auto& other) { return other->has(name); });
      INGOT_CHECK(!taken, InvalidConfig("models", "two models have the name '" + name + "'; names differ"));
    }
    entry->bytes = weight_file_bytes(model.session.model) + model.session.engine.kv_memory;
    if (const std::string& draft = model.session.draft_model; !draft.empty())
      entry->bytes += weight_file_bytes(draft);
    entries_.push_back(std::move(entry));
  }
  Lock lock(mutex_);
  load(*entries_.front(), lock);
  thread_ = std::thread([this] { work(); });
}

ModelPool::~ModelPool() { close(); }

void ModelPool::close() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (const auto& entry : entries_) entry->model.reset();
}

const std::string& ModelPool::default_name() const { return entries_.front()->names.front(); }

ModelPool::Entry& ModelPool::find(const std::string& name) const {
  std::string served;
  for (const auto& entry : entries_) {
    if (entry->has(name)) return *entry;
    served += fmt::format("{}'{}'", served.empty() ? "" : ", ", entry->names.front());
  }
  throw ApiError(404,
                 fmt::format("the model '{}' is not served here; {} {}", name, served,
                             entries_.size() == 1 ? "is" : "are"),
                 "model", "model_not_found");
}

void ModelPool::check(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  find(name);
}

void ModelPool::load_adapter(const std::string& model, ServedModel& leased, const NamedAdapter& adapter) {
  const auto check_free = [&] {
    if (std::ranges::any_of(entries_, [&](const auto& entry) { return entry->has(adapter.name); }))
      throw ApiError(
          400,
          fmt::format("the name '{}' is taken; unload that adapter, or choose another name", adapter.name),
          "lora_name", "name_taken");
  };
  {
    const std::lock_guard lock(mutex_);
    check_free();
  }
  NamedAdapter numbered = adapter;
  {
    const std::lock_guard lock(mutex_);
    numbered.number = ++find(model).adapters_loaded;
  }
  leased.load_adapter(numbered);
  try {
    const std::lock_guard lock(mutex_);
    check_free();
    find(model).adapters.push_back({numbered, true});
  } catch (...) {
    leased.unload_adapter(numbered);
    throw;
  }
}

void ModelPool::unload_adapter(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    const std::optional<NamedAdapter> adapter = entry->adapter(name);
    if (!adapter) continue;
    entry->remove(*adapter);
    if (entry->default_adapter == name) entry->default_adapter.clear();
    if (entry->model != nullptr) entry->model->unload_adapter(*adapter);
    return;
  }
  throw ApiError(404, fmt::format("there is no adapter '{}'", name), "lora_name", "adapter_not_found");
}

ModelLease ModelPool::lease(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Entry& entry = find(name);
  if (entry.failure != nullptr) std::rethrow_exception(entry.failure);
  if (entry.model == nullptr || entry.leaving) throw NotLoaded{&entry};
  ++entry.users;
  entry.used = PoolClock::now();
  return {entry.model.get(), [this, &entry](ServedModel*) { give_back(entry); }};
}

void ModelPool::give_back(Entry& entry) {
  const std::lock_guard lock(mutex_);
  --entry.users;
  entry.used = PoolClock::now();
  changed_.notify_all();
}

AdapterHandle ModelPool::hold_adapter(const ServedModel& leased, const std::string& name) {
  const std::shared_ptr<AdapterBank>& bank = leased.session().adapters();
  if (name.empty() || bank == nullptr) return nullptr;
  AdapterHandle adapter = bank->find(name);
  if (adapter != nullptr) return adapter;
  const std::optional<NamedAdapter> evicted = bank->evicted(name);
  if (!evicted) return bank->find(name);  // reloaded in between
  const std::lock_guard lock(mutex_);
  Entry& entry = find(name);
  const auto failed = entry.adapter_failures.find(evicted->number);
  if (failed != entry.adapter_failures.end()) std::rethrow_exception(failed->second);
  throw NotLoaded{&entry, name};
}

void ModelPool::call_when_loaded(const NotLoaded& wait, std::function<void()> action) {
  Entry& entry = *wait.entry;
  {
    const std::lock_guard lock(mutex_);
    const bool is_loaded = entry.model != nullptr && !entry.leaving;
    const auto is_evicted = [&] {
      return !wait.adapter.empty() && entry.model->session().adapters()->evicted(wait.adapter).has_value();
    };
    if (!is_loaded || is_evicted()) {
      if (!wait.adapter.empty()) entry.wanted.insert(wait.adapter);
      entry.waiting.push_back(std::move(action));
      if (!entry.queued) queue_.push_back(&entry);
      entry.queued = true;
      changed_.notify_all();
      return;
    }
  }
  action();  // it was loaded meanwhile
}

std::vector<ModelPool::Listed> ModelPool::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> list;
  for (const auto& entry : entries_) {
    Listed& listed =
        list.emplace_back(Listed{.names = entry->names,
                                 .adapters = {},
                                 .context = entry->model != nullptr ? entry->model->context() : 0});
    for (const Entry::Adapter& adapter : entry->adapters) listed.adapters.push_back(adapter.name());
  }
  return list;
}

std::vector<std::pair<std::string, infer::EngineStats>> ModelPool::stats() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, infer::EngineStats>> stats;
  for (const auto& entry : entries_) {
    if (entry->model != nullptr) stats.emplace_back(entry->names.front(), entry->model->scheduler().stats());
  }
  return stats;
}

bool ModelPool::is_idle() const {
  return queue_.empty() &&
         std::ranges::all_of(entries_, [](const auto& entry) { return entry->users == 0 && !entry->queued; });
}

bool ModelPool::wait_until_idle(std::chrono::milliseconds most) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, most, [this] { return is_idle(); });
}

// The thread that loads and unloads: one model at a time.
void ModelPool::work() {
  trace::name_thread("model loader");
  Lock lock(mutex_);
  while (!stopping_) {
    Entry* oldest = options_.unload_after.count() > 0 ? least_recently_used(nullptr) : nullptr;
    if (oldest != nullptr && oldest->users > 0) oldest = nullptr;  // all are in use
    const auto due = oldest != nullptr ? oldest->used + options_.unload_after : PoolClock::time_point::max();
    if (due <= PoolClock::now()) {
      unload(*oldest, lock);
    } else if (!queue_.empty()) {
      Entry& next = *queue_.front();
      queue_.pop_front();
      serve(next, lock);
    } else if (oldest != nullptr) {
      changed_.wait_until(lock, due);
    } else {
      changed_.wait(lock);
    }
  }
}

// Loads a model, and tells those who wait for it.
void ModelPool::serve(Entry& entry, Lock& lock) {
  std::vector<AdapterHandle> held;  // until those who wait have them
  try {
    if (entry.model == nullptr) {
      make_room(entry, lock);
      if (stopping_) return;
      load(entry, lock);
    }
    held = reload_adapters(entry, lock);
  } catch (const std::exception& error) {
    const auto* refused = dynamic_cast<const ApiError*>(&error);
    entry.failure = std::make_exception_ptr(
        refused != nullptr ? *refused
                           : ApiError(500,
                                      fmt::format("the model '{}' could not be loaded: {}",
                                                  entry.names.front(), error.what()),
                                      "model", "model_load_failed"));
    log(LogLevel::error, "ingot::serve",
        fmt::format("{} could not be loaded: {}", entry.names.front(), error.what()));
  }
  entry.queued = false;
  const std::vector<std::function<void()>> waiting = std::exchange(entry.waiting, {});
  lock.unlock();  // nobody else unloads it meanwhile
  for (const auto& action : waiting) action();
  lock.lock();
  entry.failure = nullptr;
  entry.adapter_failures.clear();
  changed_.notify_all();
}

// Throws as ServedModel does, with the lock held. Meanwhile, requests may unload adapters.
void ModelPool::load(Entry& entry, Lock& lock) {
  const std::vector<NamedAdapter> added = entry.sources(true);
  ServedModelOptions options = entry.options;
  options.session.named_adapters = entry.sources(false);
  std::vector<NamedAdapter> gone;
  lock.unlock();
  std::unique_ptr<ServedModel> model;
  std::exception_ptr failure;
  try {
    model = std::make_unique<ServedModel>(options);
    for (const NamedAdapter& adapter : added)
      if (!load_again(adapter, [&] { model->load_adapter(adapter); })) gone.push_back(adapter);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure != nullptr) std::rethrow_exception(failure);
  for (const NamedAdapter& adapter : gone) entry.remove(adapter);
  for (const auto* adapters : {&std::as_const(options.session.named_adapters), &added})
    for (const NamedAdapter& adapter : *adapters)
      if (!entry.has(adapter)) model->unload_adapter(adapter);
  if (entry.has(entry.default_adapter)) model->set_default_adapter(entry.default_adapter);
  entry.model = std::move(model);
  entry.used = PoolClock::now();
}

// Reads the adapters that requests wait for, with the lock held. What has become of their files is told as of
// those of a model that is loaded again. They stay in memory while the result lives. Meanwhile a request may
// unload one, and another may load one of its name, which is left alone.
std::vector<AdapterHandle> ModelPool::reload_adapters(Entry& entry, Lock& lock) {
  const std::set<std::string> wanted = std::exchange(entry.wanted, {});
  AdapterBank* const bank = entry.model->session().adapters().get();
  std::vector<NamedAdapter> evicted;
  for (const std::string& name : wanted)
    if (const auto adapter = bank->evicted(name)) evicted.push_back(*adapter);
  if (evicted.empty()) return {};
  ServedModel& model = *entry.model;
  std::vector<AdapterHandle> held;
  std::vector<NamedAdapter> gone;
  std::map<std::uint64_t, std::exception_ptr> failures;
  lock.unlock();  // none but this thread unloads the model
  for (const NamedAdapter& adapter : evicted) {
    try {
      if (!load_again(adapter, [&] { model.reload_adapter(adapter); })) gone.push_back(adapter);
      if (AdapterHandle handle = bank->find(adapter.name)) held.push_back(std::move(handle));
    } catch (const std::exception& error) {
      const std::string what =
          fmt::format("the adapter '{}' could not be loaded: {}", adapter.name, error.what());
      failures[adapter.number] = std::make_exception_ptr(ApiError(500, what, "model", "model_load_failed"));
      log(LogLevel::error, "ingot::serve", what);
    }
  }
  lock.lock();
  entry.adapter_failures = std::move(failures);
  for (const NamedAdapter& adapter : gone) entry.remove(adapter);
  for (const NamedAdapter& adapter : evicted)
    if (!entry.has(adapter)) model.unload_adapter(adapter);  // or a request has unloaded it meanwhile
  return held;
}

// Those who ask for a model that is to go wait until it is loaded again, behind `entry`: else a model that is
// always in use would never go.
void ModelPool::make_room(const Entry& entry, Lock& lock) {
  if (options_.memory == 0) return;
  if (entry.bytes > options_.memory) {
    throw ApiError(
        503,
        fmt::format("the model '{}' takes {} with its keys and values, and models may have {} (model_memory)",
                    entry.names.front(), human_bytes(entry.bytes), human_bytes(options_.memory)),
        "model", "model_too_large");
  }
  while (memory_of_loaded() + entry.bytes > options_.memory) {
    Entry& oldest = *least_recently_used(&entry);
    oldest.leaving = true;
    changed_.wait(lock, [&] { return stopping_ || oldest.users == 0; });
    if (stopping_) return;
    unload(oldest, lock);
  }
}

void ModelPool::unload(Entry& entry, Lock& lock) {
  std::unique_ptr<ServedModel> model = std::move(entry.model);
  entry.default_adapter = model->default_adapter();
  entry.leaving = false;
  lock.unlock();
  model.reset();
  lock.lock();
}

// Of those that are loaded; one in use only where all are.
ModelPool::Entry* ModelPool::least_recently_used(const Entry* but) const {
  Entry* oldest = nullptr;
  const auto rank = [](const Entry& entry) { return std::pair(entry.users > 0, entry.used); };
  for (const auto& entry : entries_) {
    if (entry->model == nullptr || entry.get() == but) continue;
    if (oldest == nullptr || rank(*entry) < rank(*oldest)) oldest = entry.get();
  }
  return oldest;
}

std::size_t ModelPool::memory_of_loaded() const {
  std::size_t bytes = 0;
  for (const auto& entry : entries_)
    if (entry->model != nullptr) bytes += entry->bytes;
  return bytes;
}

}  // namespace ingot::serve
