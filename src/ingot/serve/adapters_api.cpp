#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/serve/api.h"
#include "ingot/serve/fields.h"

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

}  // namespace

std::vector<Route> adapter_routes() {
  return {{"POST", "/v1/load_lora_adapter", load_lora_adapter},
          {"POST", "/v1/unload_lora_adapter", unload_lora_adapter}};
}

}  // namespace ingot::serve
