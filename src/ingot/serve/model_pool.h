#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ingot/serve/served_model.h"

namespace ingot::serve {

struct ModelPoolOptions {
  /// Bytes of all loaded models: the files of their weights, and EngineOptions::kv_memory. The least recently
  /// used is unloaded for another, once its requests have ended. 0: no limit.
  std::size_t memory = 0;
  std::chrono::milliseconds unload_after{0};  ///< a model that nobody asks for as long goes; 0: never
};

/// A loaded model, which stays loaded while a lease lives.
using ModelLease = std::shared_ptr<ServedModel>;

/// The models of a server, each loaded when it is asked for. Any thread may use it.
class ModelPool {
 public:
  struct Entry;
  /// Thrown to those who ask for a model that is not loaded: call_when_loaded() tells them to ask again.
  struct NotLoaded {
    Entry* entry;
    std::string adapter{};  ///< that is evicted; empty: the model is not loaded
  };
  /// A model as clients see it.
  struct Listed {
    std::vector<std::string> names, adapters;
    std::int64_t context = 0;  ///< tokens; 0: it is not loaded
  };

  /// Loads the first model, and throws as it does; InvalidConfig where two have one name.
  ModelPool(const std::vector<ServedModelOptions>& models, const ModelPoolOptions& options);
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// That of the first model, for requests that name none.
  const std::string& default_name() const;
  /// ApiError 404 for a name that no model and no adapter has.
  void check(const std::string& name) const;
  /// The model of a name, or of an adapter's. ApiError 404 for one that nobody has, NotLoaded, or what went
  /// wrong where its loading has just failed.
  ModelLease lease(const std::string& name);
  /// Keeps an adapter of a leased model in memory; null for no name. NotLoaded where it is evicted, and what
  /// went wrong where it has just failed to be loaded again.
  AdapterHandle hold_adapter(const ServedModel& leased, const std::string& name);
  /// Has the model, or its adapter, loaded. `action` is called once it is, or has failed; at shutdown never.
  void call_when_loaded(const NotLoaded& wait, std::function<void()> action);

  /// Reads an adapter for a model that is leased by this name; from then on requests find it. ApiError 400
  /// for a name that is taken, evicted or not; throws as AdapterBank::load() does.
  void load_adapter(const std::string& model, ServedModel& leased, const NamedAdapter& adapter);
  /// Requests find it no more, and those that have it go on. ApiError 404 for a name that no adapter has.
  void unload_adapter(const std::string& name);

  std::vector<Listed> list() const;
  std::int64_t created() const { return created_; }  ///< seconds since 1970
  /// Of each loaded model, by its first name.
  std::vector<std::pair<std::string, infer::EngineStats>> stats() const;
  /// False: models are in use still when the time is over.
  bool wait_until_idle(std::chrono::milliseconds most);
  /// Cancels all requests, and unloads all models. Leases may outlive it, but not the pool.
  void close();

 private:
  using Lock = std::unique_lock<std::mutex>;
  Entry& find(const std::string& name) const;
  bool is_idle() const;
  void give_back(Entry& entry);
  void work();
  void serve(Entry& entry, Lock& lock);
  void load(Entry& entry, Lock& lock);
  std::vector<AdapterHandle> reload_adapters(Entry& entry, Lock& lock);
  void make_room(const Entry& entry, Lock& lock);
  void unload(Entry& entry, Lock& lock);
  Entry* least_recently_used(const Entry* but) const;
  std::size_t memory_of_loaded() const;

  const ModelPoolOptions options_;
  const std::int64_t created_;
  std::vector<std::unique_ptr<Entry>> entries_;  // guarded, but for the models' names
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry*> queue_;  // to be loaded
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ingot::serve
