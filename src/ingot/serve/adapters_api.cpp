#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/serve/api.h"
#include "ingot/serve/fields.h"
#include "ingot/serve/lora_choice.h"

namespace ingot::serve {
namespace {

std::string required(const Fields& body, const char* name) {
  auto value = body.string(name);
  if (!value || value->empty()) throw bad_field(name, "is missing");
  return *value;
}

// vLLM's, with `base_model_name` for a server of several models.
void load_lora_adapter(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  const nlohmann::json parsed = parse_body(exchange->request().body);
  const Fields body(parsed);
  const std::string name = required(body, "lora_name"), path = required(body, "lora_path");
  context.adapters.load(exchange, body.string("base_model_name").value_or(context.models.default_name()),
                        name, path);
}

void unload_lora_adapter(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const nlohmann::json parsed = parse_body(exchange->request().body);
  const std::string name = required(Fields(parsed), "lora_name");
  context.adapters.unload(name);
  exchange->send({.body = fmt::format("Success: LoRA adapter '{}' removed successfully.", name),
                  .content_type = "text/plain; charset=utf-8"});
}

// llama-server's: what there is, and what is on for requests that ask for the model itself.
void list_lora_adapters(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const ModelLease model = context.models.lease(context.models.default_name());
  const std::string on = model->default_adapter();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ListedAdapter& adapter : listed_adapters(*model))
    list.push_back({{"id", adapter.id},
                    {"name", adapter.name},
                    {"path", adapter.path},
                    {"scale", adapter.name == on ? 1.0 : 0.0}});
  exchange->send({.body = dump_json(list)});
}

void set_lora_adapters(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  check_draining(context);
  context.adapters.check_allowed();
  const nlohmann::json list = parse_json_or_discard<nlohmann::json>(exchange->request().body);
  if (list.is_discarded())
    throw ApiError(400, "the body is not JSON; a list of {\"id\": 0, \"scale\": 1} was expected");
  const ModelLease model = context.models.lease(context.models.default_name());
  model->set_default_adapter(adapter_switched_on(list, *model));
  exchange->send({.body = R"({"success":true})"});
}

}  // namespace

std::vector<Route> adapter_routes() {
  return {
      {"GET", "/lora-adapters", list_lora_adapters},
      {.method = "POST", .path = "/lora-adapters", .handler = set_lora_adapters, .admin = true},
      {.method = "POST", .path = "/v1/load_lora_adapter", .handler = load_lora_adapter, .admin = true},
      {.method = "POST", .path = "/v1/unload_lora_adapter", .handler = unload_lora_adapter, .admin = true}};
}

}  // namespace ingot::serve
