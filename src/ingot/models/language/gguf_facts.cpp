#include "ingot/models/language/gguf_facts.h"

#include <algorithm>
#include <variant>

#include "ingot/base/error.h"

namespace ingot {

std::int64_t GgufFacts::required(std::string_view name) const {
  const auto value = integer(name);
  INGOT_CHECK(value && *value > 0,
              FormatError(source_.location(), -1, key(name), "is missing or not positive"));
  return *value;
}

std::vector<std::int64_t> GgufFacts::of_layers(std::string_view name) const {
  const GgufValue* value = fields_.find(key(name));
  if (value == nullptr || !value->is_array) return {};
  if (value->type == GgufType::boolean) {
    const auto& truths = std::get<std::vector<std::uint64_t>>(value->items);
    return {truths.begin(), truths.end()};
  }
  return fields_.integers(key(name)).value_or(std::vector<std::int64_t>{});
}

bool GgufFacts::has(std::string_view tensor) const { return source_.is_available(std::string(tensor)); }

bool GgufFacts::any(std::string_view end) const {
  return std::ranges::any_of(source_.tensors(),
                             [&](const TensorInfo& info) { return info.name.ends_with(end); });
}

}  // namespace ingot
