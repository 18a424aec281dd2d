#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ingot/infer/chat_prompt.h"
#include "ingot/infer/scheduler.h"
#include "ingot/infer/session.h"

namespace ingot::serve {

/// The last part of a model's path, without ".gguf".
std::string name_of_path(const std::string& path);

struct ServedModelOptions {
  infer::SessionOptions session{};
  std::vector<std::string> names{};  ///< by which clients may ask for it; none: the last part of its path.
                                     ///< Named adapters of the session have their own
  infer::SchedulerOptions scheduler{};
  std::int64_t speculate = 0;  ///< draft tokens of each request (infer::Request::speculate)
};

/// The names that clients may ask for the model by, at least one.
std::vector<std::string> names_of(const ServedModelOptions& options);

/// A model that generates text, with the scheduler that all requests share.
class ServedModel {
 public:
  /// Throws as infer::Session does.
  explicit ServedModel(const ServedModelOptions& options);

  const std::string& name() const { return names_.front(); }
  const std::vector<std::string>& names() const { return names_; }
  /// The adapter that a name stands for; empty: the model itself.
  std::string adapter(const std::string& name) const;
  /// Throws as AdapterBank::load() does. Any thread may load and unload.
  void load_adapter(const NamedAdapter& adapter);
  /// As AdapterBank::reload(): false where it was unloaded meanwhile.
  bool reload_adapter(const NamedAdapter& adapter);
  /// The adapter of this name and number; another that has its name by now stays.
  void unload_adapter(const NamedAdapter& adapter);
  /// The adapter of requests that ask for the model itself; empty: none, also where it is not loaded.
  std::string default_adapter() const;
  /// Empty: none.
  void set_default_adapter(const std::string& name);
  std::int64_t created() const { return created_; }  ///< seconds since 1970
  const infer::Session& session() const { return session_; }
  const text::Tokenizer& tokenizer() const { return session_.tokenizer(); }
  std::int64_t context() const { return scheduler_.engine().context(); }
  /// Tokens that fit behind a prompt, at least 1: what a request that names no limit may write.
  std::int64_t room_behind(std::span<const std::int32_t> prompt) const {
    return std::max<std::int64_t>(1, context() - std::ssize(prompt));
  }
  infer::Scheduler& scheduler() { return scheduler_; }
  /// What a request that says nothing gets: temperature 1, and what the model's files say.
  const infer::TextOptions& defaults() const { return defaults_; }
  /// ApiError where the model has no chat template.
  const infer::ChatPrompt& chat() const;

 private:
  infer::Session session_;
  std::vector<std::string> names_;
  std::int64_t created_;
  infer::TextOptions defaults_;
  std::optional<infer::ChatPrompt> chat_;
  std::string no_chat_;  // why there is none
  mutable std::mutex mutex_;
  std::uint64_t default_adapter_ = 0;  // its number, which no other gets; 0: none. Guarded
  infer::Scheduler scheduler_;
};

}  // namespace ingot::serve
