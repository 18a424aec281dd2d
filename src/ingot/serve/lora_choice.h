#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/serve/api.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/generation_params.h"
#include "ingot/serve/served_model.h"

namespace ingot::serve {

/// An adapter as llama-server lists it.
struct ListedAdapter {
  std::int64_t id = 0;  ///< of its loading, from 0 on
  std::string name, path;
};
std::vector<ListedAdapter> listed_adapters(const ServedModel& model);

/// The adapter that [{"id": 0, "scale": 1}, ...] switches on, empty where it is none. Others are off.
/// ApiError 400 for an id that is not there, a scale but 0 and 1, and several that are on.
std::string adapter_switched_on(const nlohmann::json& list, const ServedModel& model);

/// Sets the adapter of a request: by its field `lora` as llama-server has it, by the name that it asked for,
/// or what POST /lora-adapters has put on the model. Throws as ModelPool::hold_adapter() and, for
/// an adapter that the field names, Access::check_model() do.
void choose_adapter(const ApiContext& context, const HttpRequest& request, const Fields& body,
                    const AskedModel& asked, GenerationParams& params);

}  // namespace ingot::serve
