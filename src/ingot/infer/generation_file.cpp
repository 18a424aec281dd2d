#include "ingot/infer/generation_file.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/generation_config.h"

namespace ingot::infer {

std::string kept_generation_config(const std::string& model, const text::Tokenizer& tokenizer) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const std::string path = model + "/generation_config.json";
  if (std::filesystem::exists(path)) json = parse_json<nlohmann::ordered_json>(read_file(path), path);
  const auto ids = find_end_tokens(GenerationConfig::of_model(model), tokenizer);
  if (ids.size() == 1) json["eos_token_id"] = ids[0];
  if (ids.size() > 1) json["eos_token_id"] = ids;
  return dump_json(json, 2) + "\n";
}

}  // namespace ingot::infer
