#include "ingot/models/rope_keys.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/models/require.h"

namespace ingot {
namespace {

void read_rope_scaling(const ConfigFile& file, RopeKeys& keys) {
  RopeScaling& rope = keys.scaling;
  file.read("type", rope.type);
  file.read("rope_type", rope.type);
  file.read("rope_theta", keys.theta);
  file.read("partial_rotary_factor", keys.partial_rotary_factor);
  file.read("factor", rope.factor);
  require(!file.has("factor") || rope.factor > 0, "rope_scaling.factor",
          fmt::format("must be at least 1, got {}", rope.factor));
  file.read("original_max_position_embeddings", rope.original_max_position_embeddings);
  file.read("low_freq_factor", rope.low_freq_factor);
  file.read("high_freq_factor", rope.high_freq_factor);
  file.read("attention_factor", rope.attention_factor);
  file.read("beta_fast", rope.beta_fast);
  file.read("beta_slow", rope.beta_slow);
  file.read("mscale", rope.mscale);
  file.read("mscale_all_dim", rope.mscale_all_dim);
  file.read("truncate", rope.truncate);
  file.read("short_factor", rope.short_factor);
  file.read("long_factor", rope.long_factor);
  file.read("short_mscale", rope.short_mscale);
  file.read("long_mscale", rope.long_mscale);
}

void check_factors(const std::vector<double>& factors, const char* key, std::int64_t pairs) {
  require(static_cast<std::int64_t>(factors.size()) == pairs, key,
          fmt::format("needs one number for each of the {} pairs of a head that rotate, got {}", pairs,
                      factors.size()));
  require(std::ranges::all_of(factors, [](double f) { return f > 0; }), key, "must be positive throughout");
}

void derive_scaling(RopeScaling& rope, const RotaryConfig& rotary) {
  const std::int64_t context = rotary.max_position_embeddings;
  if (rope.original_max_position_embeddings == 0) rope.original_max_position_embeddings = context;
  const std::int64_t original = rope.original_max_position_embeddings;
  require(original > 0, "rope_scaling.original_max_position_embeddings",
          fmt::format("must be positive, got {}", original));
  if (rope.factor != 0) return;
  const bool by_lengths = rope.type == "yarn" || rope.type == "longrope";
  rope.factor =
      by_lengths ? std::max(1.0, static_cast<double>(context) / static_cast<double>(original)) : 1.0;
}

}  // namespace

void RopeKeys::read(const ConfigFile& file) {
  file.read("rope_theta", theta);
  file.read("rope_local_base_freq", local_theta);
  file.read("partial_rotary_factor", partial_rotary_factor);
  const auto parameters = file.object(file.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (!parameters.has_value()) return;
  const auto full = parameters->object("full_attention"), sliding = parameters->object("sliding_attention");
  read_rope_scaling(full.value_or(*parameters), *this);
  if (!sliding.has_value()) return;
  std::string type = "default";
  sliding->read("rope_type", type);
  INGOT_CHECK(
      type == "default",
      NotImplemented(fmt::format("{}: rope_type '{}' of sliding layers (default is)", file.path(), type)));
  sliding->read("rope_theta", local_theta);
}

void validate_rope(RopeScaling& rope, const RotaryConfig& rotary, std::int64_t head_dim) {
  static const std::vector<std::string> kTypes{"default",  "linear", "dynamic",     "yarn",
                                               "longrope", "llama3", "proportional"};
  require(std::ranges::find(kTypes, rope.type) != kTypes.end(), "rope_scaling.rope_type",
          fmt::format("'{}' is not supported{}; these are: {}", rope.type, did_you_mean(rope.type, kTypes),
                      fmt::join(kTypes, ", ")));
  require(rotary.theta > 0, "rope_theta", fmt::format("must be positive, got {}", rotary.theta));
  require(rotary.local_theta >= 0, "rope_local_base_freq",
          fmt::format("must be 0 (off) or positive, got {}", rotary.local_theta));
  require(rotary.size >= 2 && rotary.size % 2 == 0, "head_dim",
          fmt::format("RoPE rotates pairs, so it must be even; {} elements of {} are to rotate", rotary.size,
                      head_dim));
  require(rotary.local_size % 2 == 0, "head_dim",
          fmt::format("RoPE rotates pairs, so it must be even, got {}", rotary.local_size));
  INGOT_CHECK(rope.type != "proportional" || rotary.turning > 0,
              NotImplemented("rope_type 'proportional' in this family"));
  derive_scaling(rope, rotary);
  require(rope.factor >= 1, "rope_scaling.factor", fmt::format("must be at least 1, got {}", rope.factor));
  if (rope.type == "dynamic")
    require(rotary.size > 2, "head_dim", "dynamic RoPE needs more than one pair per head");
  if (rope.type == "longrope") {
    check_factors(rope.short_factor, "rope_scaling.short_factor", rotary.size / 2);
    check_factors(rope.long_factor, "rope_scaling.long_factor", rotary.size / 2);
    for (const auto& [key, mscale] : {std::pair{"rope_scaling.short_mscale", rope.short_mscale},
                                      {"rope_scaling.long_mscale", rope.long_mscale}})
      require(mscale >= 0, key, fmt::format("must be positive, got {}", mscale));
  }
}

nlohmann::ordered_json rope_to_json(const RopeScaling& rope, double theta) {
  nlohmann::ordered_json json{{"rope_type", rope.type}, {"rope_theta", theta}};
  if (rope.type == "default") return json;
  if (rope.type != "proportional" || rope.factor != 1) json["factor"] = rope.factor;
  if (rope.type == "llama3" || rope.type == "yarn" || rope.type == "longrope") {
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  if (rope.type == "llama3") {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == "longrope") {
    json["short_factor"] = rope.short_factor;
    json["long_factor"] = rope.long_factor;
    if (rope.short_mscale > 0) json["short_mscale"] = rope.short_mscale;
    if (rope.long_mscale > 0) json["long_mscale"] = rope.long_mscale;
  }
  if (rope.type == "yarn") {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
    if (rope.mscale > 0) json["mscale"] = rope.mscale;
    if (rope.mscale_all_dim > 0) json["mscale_all_dim"] = rope.mscale_all_dim;
  }
  return json;
}

}  // namespace ingot
