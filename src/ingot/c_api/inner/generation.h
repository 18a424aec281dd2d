#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ingot/c_api/inner/handles.h"
#include "ingot/c_api/model.h"
#include "ingot/infer/chat_prompt.h"
#include "ingot/infer/session.h"

// What sessions and schedulers share.

struct IngotSession : ingot::c_api::Object {
  static constexpr const char* kName = "session";
  explicit IngotSession(const ingot::infer::SessionOptions& options) : session(options) {}
  /// Throws InvalidConfig where the model has no template.
  std::vector<std::int32_t> chat_ids(const char* messages, const char* tools) const;
  std::string chat_text(const char* messages, const char* tools) const;
  ingot::infer::Session session;
};

struct IngotGeneration : ingot::c_api::Object {
  static constexpr const char* kName = "generation";
  explicit IngotGeneration(ingot::infer::WrittenText w);
  ingot::infer::WrittenText written;
  std::string reason;
  std::vector<float> logprobs;
};

namespace ingot::c_api {

/// A call's options over those of the session's model.
infer::TextOptions text_options(const infer::Session& session, const IngotGenerateOptions* options);

}  // namespace ingot::c_api
