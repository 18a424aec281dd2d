#include "ingot/models/tensorflow_names.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/models/keras_hub.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

using Levels = std::vector<std::string>;

Levels split(std::string_view text, char separator) {
  Levels levels;
  while (true) {
    const std::size_t at = text.find(separator);
    if (at != 0 && !text.empty()) levels.emplace_back(text.substr(0, at));  // not the empty ones
    if (at == text.npos) return levels;
    text.remove_prefix(at + 1);
  }
}

bool starts_with_digit(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

/// Keras' names of variables, in PyTorch's words.
void name_variable(TorchName& torch, Levels& levels) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords{
      {{"kernel", "weight"}, {"embeddings", "weight"}, {"gamma", "weight"}, {"beta", "bias"}}};
  std::string& last = levels.back();
  torch.transposed = last == "kernel";
  torch.squeezed = last == "bias";  // GPT-2's are [1, n]
  for (const auto& [keras, word] : kWords) {
    if (last == keras) {
      last = word;
      break;
    }
  }
  torch.name = fmt::format("{}", fmt::join(levels, "."));
}

/// transformers' TF models: "LAYER/MODEL/" in front; "a___b" is b, and "_._" parts levels.
std::optional<TorchName> from_transformers(std::string_view name) {
  if (!name.ends_with(":0")) return std::nullopt;
  Levels levels;
  for (const std::string& level : split(name.substr(0, name.size() - 2), '/')) {
    const std::size_t alias = level.find("___");
    std::string_view rest =
        alias == level.npos ? std::string_view(level) : std::string_view(level).substr(alias + 3);
    for (std::size_t at; (at = rest.find("_._")) != rest.npos; rest.remove_prefix(at + 3))
      levels.emplace_back(rest.substr(0, at));
    if (!rest.empty()) levels.emplace_back(rest);
  }
  if (levels.size() < 4) return std::nullopt;
  levels.erase(levels.begin(), levels.begin() + 2);
  TorchName torch;
  name_variable(torch, levels);
  return torch;
}

/// google-research/bert.
std::optional<TorchName> from_google_bert(std::string_view name) {
  Levels levels = split(name, '/');
  if (levels.size() < 3 || (levels[0] != "bert" && levels[0] != "cls")) return std::nullopt;
  for (std::string& level : levels) {
    if (level.starts_with("layer_") && starts_with_digit(std::string_view(level).substr(6))) level[5] = '.';
  }
  std::string& last = levels.back();
  if (last.ends_with("_embeddings")) last += ".weight";
  if (last == "output_bias") last = "bias";
  if (last == "output_weights") last = "weight";
  TorchName torch;
  name_variable(torch, levels);
  torch.squeezed = false;
  return torch;
}

/// openai/gpt-2: "model/h0/ln_1/g". Its matrices are [1, in, out], and transformers' Conv1D [in, out].
std::optional<TorchName> from_openai_gpt2(std::string_view name) {
  Levels levels = split(name, '/');
  if (levels.size() < 2 || levels[0] != "model") return std::nullopt;
  levels[0] = "transformer";
  for (std::string& level : levels) {
    if (level.starts_with("h") && starts_with_digit(std::string_view(level).substr(1))) level.insert(1, ".");
  }
  std::string& last = levels.back();
  const bool matrix = last == "w";
  if (last == "w" || last == "g") last = "weight";
  if (last == "b") last = "bias";
  if (last == "wte" || last == "wpe") last += ".weight";
  return TorchName{fmt::format("{}", fmt::join(levels, ".")), false, matrix};
}

/// The optimizer's averages, the step and the like.
bool is_bookkeeping(std::string_view name) {
  return name.ends_with("/adam_m") || name.ends_with("/adam_v") || name == "global_step" ||
         name == "save_counter" || name.starts_with("_CHECKPOINTABLE");
}

TensorRecipe recipe_for(const TensorInfo& info, const TorchName& torch) {
  TensorRecipe recipe{torch.name, {info.name}, {}};
  const std::vector<std::int64_t>& shape = info.shape;
  if (torch.squeezed && shape.size() > 1 && shape.front() == 1)
    recipe.steps.push_back(Transform::reshape({shape.begin() + 1, shape.end()}));
  if (torch.transposed && shape.size() == 2) recipe.steps.push_back(Transform::transpose());
  return recipe;
}

}  // namespace

std::optional<TorchName> torch_name_of(std::string_view name) {
  for (const auto& from : {from_transformers, from_google_bert, from_openai_gpt2}) {
    if (auto torch = from(name)) return torch;
  }
  return std::nullopt;
}

std::shared_ptr<const WeightSource> under_torch_names(std::shared_ptr<const WeightSource> source) {
  if (source->format() != "hdf5" && source->format() != "tensorflow") return source;
  if (auto named = from_keras_hub(source)) return named;
  std::vector<TensorRecipe> recipes;
  std::set<std::string> names;
  bool any = false;
  for (const TensorInfo& info : source->tensors()) {
    if (is_bookkeeping(info.name)) continue;
    const std::optional<TorchName> torch = torch_name_of(info.name);
    any |= torch.has_value();
    // Keras stores a variable once for each layer that holds it: a masked-LM head has the word embeddings
    // too.
    if (!names.insert(torch ? torch->name : info.name).second) continue;
    recipes.push_back(torch ? recipe_for(info, *torch) : TensorRecipe{info.name, {info.name}, {}});
  }
  if (!any) return source;
  return std::make_shared<TransformedSource>(std::move(source), std::move(recipes));
}

}  // namespace ingot
