#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ingot/infer/constraint.h"
#include "ingot/serve/fields.h"

namespace ingot::serve {

/// What a request asks its text to be: OpenAI's `response_format`, vLLM's `structured_outputs` and
/// `guided_*`, llama-server's `grammar` and `json_schema`. ApiError where several do, or one is wrong.
infer::Constraint read_constraint(const Fields& body);

/// Ollama's `format`: "", "json" or a schema.
infer::Constraint read_format(const nlohmann::json& format);

}  // namespace ingot::serve
