#include "ingot/models/language/vocabulary.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/nn/grow_rows.h"

namespace ingot {
void grow_vocabulary(LanguageModel& model, std::int64_t tokens) {
  const std::int64_t rows = model.config.vocab_size;
  if (tokens <= rows) return;
  const auto refuse = [&](const char* why) {
    throw NotImplemented(fmt::format("{} tokens for a model that has {}: {}", tokens, rows, why));
  };
  if (model.per_layer_inputs != nullptr)
    refuse("its layers have token tables of their own, which do not grow");
  if (model.part != nullptr) refuse("ranks have it together; merge the adapter into the model (ingot merge)");
  const DType dtype = model.activation_dtype.value_or(model.config.dtype);
  grow_rows(model.embed_tokens.weight, tokens, dtype);
  if (model.lm_head != nullptr) grow_rows(*model.lm_head, tokens, dtype);
  if (model.head_bias) model.head_bias.replace(with_mean_rows(model.head_bias.value, tokens));
  model.config.vocab_size = tokens;
}

}  // namespace ingot
