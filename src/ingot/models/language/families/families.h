#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/models/language/family.h"

namespace ingot::families {

// The rows of each file here, which language_families() puts together.
std::vector<LanguageFamily> apertus();
std::vector<LanguageFamily> bloom();
std::vector<LanguageFamily> cohere();
std::vector<LanguageFamily> deepseek();
std::vector<LanguageFamily> dots();
std::vector<LanguageFamily> exaone();
std::vector<LanguageFamily> falcon();
std::vector<LanguageFamily> falcon_h1();
std::vector<LanguageFamily> gemma();
std::vector<LanguageFamily> gemma3n();
std::vector<LanguageFamily> gemma4();
std::vector<LanguageFamily> glm();
std::vector<LanguageFamily> gpt2();
std::vector<LanguageFamily> gpt_neox();
std::vector<LanguageFamily> gpt_oss();
std::vector<LanguageFamily> granite();
std::vector<LanguageFamily> lfm2();
std::vector<LanguageFamily> llama();
std::vector<LanguageFamily> llama4();
std::vector<LanguageFamily> mamba();
std::vector<LanguageFamily> minimax();
std::vector<LanguageFamily> mistral();
std::vector<LanguageFamily> mpt();
std::vector<LanguageFamily> nemotron();
std::vector<LanguageFamily> nemotron_h();
std::vector<LanguageFamily> olmo();
std::vector<LanguageFamily> opt();
std::vector<LanguageFamily> phi();
std::vector<LanguageFamily> qwen();
std::vector<LanguageFamily> qwen_hybrid();
std::vector<LanguageFamily> stablelm();
std::vector<LanguageFamily> starcoder();

/// Rules for checkpoints that hold each expert by itself, as `block`.experts.N.`gate` and so on, and the
/// router as `block`.gate.
void map_experts(const LanguageConfig& c, WeightMap& map, const char* block, const char* gate, const char* up,
                 const char* down);
/// A router's correction bias, which checkpoints keep as a vector in every layer.
void map_router_bias(WeightMap& map, std::string_view theirs);
/// Granite's multipliers and its experts, the shared one included.
void read_granite_moe(const ConfigFile& file, LanguageConfig& c);
void write_granite_moe(const LanguageConfig& c, nlohmann::ordered_json& json);
void map_granite_moe(const LanguageConfig& c, WeightMap& map);
/// Bamba's and Falcon H1's names of norms and MLP.
void map_bamba(const LanguageConfig& c, WeightMap& map);
/// What DeepSeek V3 and those after it call their experts, shared ones and groups, in config.json and in
/// checkpoints.
void read_deepseek_experts(const ConfigFile& file, LanguageConfig& c);
void write_deepseek_experts(const LanguageConfig& c, nlohmann::ordered_json& json);
void map_deepseek_experts(const LanguageConfig& c, WeightMap& map);
/// Query, key and value of each head, or of each group of heads that share key and value, in one matrix.
void map_grouped_heads(WeightMap& map, const std::string& theirs, const LanguageConfig& c);
/// Rows of `theirs` in every layer that are `ours`.
void map_rows(WeightMap& map, std::string_view ours, std::string_view theirs, std::int64_t first,
              std::int64_t rows);
/// A tensor that has another name, weight and bias, of which `how` tells the rows.
void map_tensor(WeightMap& map, const std::string& ours, const std::string& theirs,
                const WeightRule& how = {});
/// Keys and values in layers that read others': some checkpoints have them, unused. And what is of towers
/// that see and hear.
void map_shared_keys(const LanguageConfig& c, WeightMap& map);
/// A tensor of every layer that has another name, weight and bias.
void map_name(WeightMap& map, std::string_view ours, std::string_view theirs);

}  // namespace ingot::families
