#include "ingot/serve/lora_choice.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/serve/api_error.h"

namespace ingot::serve {

std::vector<ListedAdapter> listed_adapters(const ServedModel& model) {
  std::vector<ListedAdapter> list;
  if (model.session().adapters() == nullptr) return list;
  const std::vector<NamedAdapter> known = model.session().adapters()->known();
  list.reserve(known.size());
  for (const NamedAdapter& adapter : known)
    list.push_back(
        {.id = static_cast<std::int64_t>(adapter.number) - 1, .name = adapter.name, .path = adapter.path});
  return list;
}

std::string adapter_switched_on(const nlohmann::json& list, const ServedModel& model) {
  if (!list.is_array()) throw bad_field("lora", "must be a list of {\"id\": 0, \"scale\": 1}");
  const std::vector<ListedAdapter> adapters = listed_adapters(model);
  std::string chosen;
  for (const nlohmann::json& each : list) {
    if (!each.is_object()) throw bad_field("lora", "must hold objects, {\"id\": 0, \"scale\": 1}");
    const Fields fields(each, "lora.");
    const auto id = fields.integer("id");
    const auto scale = fields.number("scale");
    if (!id || !scale) throw bad_field("lora", "wants 'id' and 'scale' of each adapter");
    const auto found = std::ranges::find(adapters, *id, &ListedAdapter::id);
    if (found == adapters.end())
      throw bad_field("lora", fmt::format("there is no adapter {}; GET /lora-adapters lists them", *id));
    if (*scale == 0) continue;
    if (*scale != 1)
      throw bad_field("lora", fmt::format("an adapter is on (scale 1) or off (0) here, got {}", *scale));
    if (!chosen.empty() && chosen != found->name)
      throw bad_field("lora", "one adapter at a time can be on for a request; merge them to have their sum");
    chosen = found->name;
  }
  return chosen;
}

namespace {

std::string chosen_adapter(const Fields& body, const ServedModel& model, const std::string& name) {
  const std::string named = model.adapter(name);
  const nlohmann::json* lora = body.any("lora");
  if (lora == nullptr) return named.empty() ? model.default_adapter() : named;
  if (!named.empty())
    throw bad_field("lora", fmt::format("and the model '{}', which is an adapter, do not go together", name));
  return adapter_switched_on(*lora, model);
}

}  // namespace

void choose_adapter(const ApiContext& context, const HttpRequest& request, const Fields& body,
                    const AskedModel& asked, GenerationParams& params) {
  params.adapter = chosen_adapter(body, *asked.model, asked.name);
  if (body.has("lora") && !params.adapter.empty()) context.access.check_model(request, params.adapter);
  params.held_adapter = context.models.hold_adapter(*asked.model, params.adapter);
}

}  // namespace ingot::serve
