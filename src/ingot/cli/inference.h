#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/cli/command.h"
#include "ingot/infer/session.h"

namespace ingot::cli {

/// What the commands that run a model share, as options.
struct InferenceOptions {
  std::string model, device = "auto", format = "as stored", kv_cache = "auto", packed_cache = "auto";
  std::string draft_model;
  std::int64_t context = 0, chunk = 512, threads = 0, speculate = 0, tensor_parallel_size = 1;
  std::vector<std::string> adapters;
  bool eager = false, yes = false;
  bool operator==(const InferenceOptions&) const = default;
};
void add_inference_options(Command& command, InferenceOptions& options);
/// The same without the model itself.
void add_run_options(Command& command, InferenceOptions& options);
/// Of commands whose model several ranks may have together (run_with_model()).
void add_tensor_parallel_option(Command& command, InferenceOptions& options);
/// Of commands that write texts: a draft model.
void add_draft_option(Command& command, InferenceOptions& options);

/// What they mean. Finds the model (hub::resolve_model) and sets the number of threads.
infer::SessionOptions session_options(const InferenceOptions& options);

/// Draft tokens: what is said, or a few where there is a draft model.
std::int64_t speculated_tokens(const InferenceOptions& options);

/// How words are chosen, as options: what was given goes over the model's own settings.
class TextFlags {
 public:
  void add_to(Command& command);
  void apply(infer::TextOptions& options) const;
  /// What was given, as fields of a request to a server (OpenAI's names, and vLLM's).
  nlohmann::ordered_json fields() const;

 private:
  template <class T>
  void add(Command& command, const std::string& names, T& (*member)(infer::TextOptions&),
           const std::string& help);
  void add_list(Command& command, const std::string& names, const char* field,
                std::vector<std::string> infer::TextOptions::*member, const std::string& help);
  void add_logit_bias(Command& command);
  void add_constraints(Command& command);
  std::vector<std::function<void(infer::TextOptions&)>> settings_;
  std::vector<std::function<void(nlohmann::ordered_json&)>> fields_;
};

/// Writes to stdout what a model made or a file holds; false where nobody takes it any more. A terminal sees
/// control characters escaped; files and pipes get the bytes.
bool print_piece(std::string_view text);

}  // namespace ingot::cli
