#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "ingot/models/encoder/family.h"

/// Encoders that differ from BERT in more than a few keys, each in a file of its own, and what the rows
/// share.
namespace ingot::encoders {

EncoderFamily modernbert();
EncoderFamily nomic_bert();
EncoderFamily deberta_v2();

/// The keys that BERT's kin share: sizes, epsilon, `hidden_act`.
void read_sizes(const ConfigFile& file, EncoderConfig& config);
/// The activation under `key` (gelu where it is absent), of layers and heads.
void read_activation(const ConfigFile& file, const char* key, EncoderConfig& config);
/// transformers' name of it.
std::string_view act_name(Activation activation);
/// Rules for weight and bias of a layer.
void rename(WeightMap& map, std::string_view ours, std::string_view theirs);
/// The same for parts of each layer: ours behind "encoder.layer.*.", theirs behind `prefix`.
void rename_layers(WeightMap& map, std::string_view prefix,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> names);
/// Rules for parts of each layer, of `rows` rows each, that stand in one matrix, in this order.
void rename_fused(WeightMap& map, std::string_view theirs, std::int64_t rows,
                  std::initializer_list<std::string_view> ours);

}  // namespace ingot::encoders
