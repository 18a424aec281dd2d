#include "tests/fuzz/generate/source.h"

// Adapters, indices of shards, settings of generation and importance matrices, whose parts are of the right
// kind and do not fit. Where there are several files, a record separator stands behind each but the last.

namespace ingot::test {
namespace {

const std::vector<std::string_view> kAdapterKeys{"peft_type",
                                                 "r",
                                                 "lora_alpha",
                                                 "lora_dropout",
                                                 "use_rslora",
                                                 "use_dora",
                                                 "target_modules",
                                                 "exclude_modules",
                                                 "layers_to_transform",
                                                 "rank_pattern",
                                                 "alpha_pattern",
                                                 "modules_to_save",
                                                 "base_model_name_or_path",
                                                 "bias"};
const std::vector<std::string_view> kGenerationKeys{
    "do_sample",      "temperature",        "top_k",        "top_p",           "min_p",
    "typical_p",      "repetition_penalty", "mirostat",     "mirostat_tau",    "no_repeat_ngram_size",
    "min_new_tokens", "max_new_tokens",     "stop_strings", "suppress_tokens", "bad_words_ids",
    "eos_token_id",   "eot_token_id",       "text_config"};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

/// A value of the kind that most keys have, so that more than the first key is read.
std::string plain_value(Source& source) {
  if (source.one_in(5)) return source.number();
  if (source.one_in(4)) return "[" + source.number() + "," + source.number() + "]";
  if (source.one_in(6)) return "[[" + source.number() + "," + source.number() + "],[1]]";
  return std::string(source.one_of({"0", "1", "2", "0.5", "true", "false", "null", "\"a\"", "[\"a\"]"}));
}

/// An object of these keys, each at most once or twice.
std::string flat_json(Source& source, const std::vector<std::string_view>& keys) {
  std::string object = "{";
  for (std::size_t n = source.below(keys.size()); n > 0; --n)
    object += quoted(source.of(keys)) + ":" + plain_value(source) + ",";
  return object + quoted(source.of(keys)) + ":" + plain_value(source) + "}";
}

std::string adapter_config(Source& source) {
  if (source.one_in(4)) return hostile_json(source, kAdapterKeys);
  if (source.one_in(3)) return flat_json(source, kAdapterKeys);
  const std::string pattern(source.one_of({"q_proj", "(a+)+$", "^model\\\\.layers\\\\.0", "(", ".*.*.*.*x"}));
  return R"({"peft_type":"LORA","r":)" + std::to_string(source.nearly(4)) + R"(,"lora_alpha":)" +
         source.number() + R"(,"use_dora":)" + (source.one_in(4) ? "true" : "false") +
         R"(,"target_modules":["q_proj"],"rank_pattern":{")" + pattern + "\":" + source.number() +
         R"(},"alpha_pattern":{")" + pattern + "\":" + source.number() + "}}";
}

/// Tensors of f32 for modules of the model that the target has: [24, 24] and [44, 24].
std::string adapter_tensors(Source& source) {
  const std::uint64_t rank = source.nearly(source.below(5));
  std::string header = "{";
  std::uint64_t at = 0;
  for (std::size_t n = source.below(5); n > 0; --n) {
    const std::string module =
        (source.one_in(4) ? "" : "base_model.model.") +
        std::string(source.one_of({"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.o_proj",
                                   "model.layers.0.mlp.up_proj", "model.embed_tokens", "lm_head",
                                   "model.layers.7.self_attn.q_proj", "", "."}));
    const std::uint64_t out = module.ends_with("up_proj") ? 44 : source.nearly(24);
    const auto add = [&](const std::string& part, std::initializer_list<std::uint64_t> shape) {
      std::string axes;
      std::uint64_t bytes = 4;
      for (const std::uint64_t axis : shape) {
        axes += (axes.empty() ? "" : ",") + std::to_string(axis);
        bytes *= axis;
      }
      if (header.size() > 1) header += ",";
      header += quoted(module + part) + R"(:{"dtype":)" +
                quoted(source.one_in(15) ? source.one_of({"BF16", "I32", "BOOL", "F8_E4M3", "F64"}) : "F32") +
                R"(,"shape":[)" + axes + R"(],"data_offsets":[)" + std::to_string(at) + ",";
      at += bytes;
      header += std::to_string(at) + "]}";
    };
    if (!source.one_in(8)) add(".lora_A.weight", {rank, source.nearly(24)});
    if (!source.one_in(8)) add(".lora_B.weight", {out, rank});
    if (source.one_in(6)) add(".lora_magnitude_vector", {out});
    if (source.one_in(8)) add(".lora_embedding_A", {rank, 61});
    if (source.one_in(8)) add(".modules_to_save.weight", {out, 24});
    if (source.one_in(12)) add(".lora_A.default.weight", {rank});
  }
  header += "}";
  return little(source.nearly(header.size()), 8) + header +
         std::string(at < (1U << 18) ? at : source.below(64), source.one_in(9) ? '\xFF' : '\0');
}

}  // namespace

std::string hostile_adapter(Source& source) {
  const std::string config = adapter_config(source);
  return config + '\x1E' + adapter_tensors(source);
}

std::string hostile_index(Source& source) {
  if (source.one_in(4)) return hostile_json(source, {"weight_map", "metadata", "total_size", "a"});
  std::string map;
  for (std::size_t n = source.one_in(20) ? 20000 : source.below(8); n > 0; --n) {
    const std::string_view tensor = source.one_of({"weight", "bias", "w\\u0000x", "", "\x1b[31m", "other"});
    const std::string_view file = source.one_of(
        {"a.safetensors", "b.safetensors", "cut.safetensors", "../a.safetensors", "/dev/zero", ".", "..", "",
         "model.safetensors.index.json", "a.safetensors\\u0000", "none", "a.safetensors", "a.safetensors"});
    map += (map.empty() ? "" : ",") + quoted(tensor) + ":" +
           (source.one_in(10) ? plain_value(source) : quoted(file));
  }
  return R"({"metadata":)" + plain_value(source) + R"(,"weight_map":{)" + map + "}}";
}

std::string hostile_generation_config(Source& source) {
  const auto one = [&] {
    return source.one_in(4) ? hostile_json(source, kGenerationKeys) : flat_json(source, kGenerationKeys);
  };
  const std::string config = source.one_in(3) ? one() : "{}";
  return config + '\x1E' + one();
}

namespace {

std::string old_matrix(Source& source) {
  const std::uint64_t entries = source.one_in(20) ? 2000 : source.below(5);
  std::string file = little(source.nearly(entries), 4);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::string name = source.one_in(3) ? source.text() : "blk." + std::to_string(i) + ".attn_q.weight";
    const std::uint64_t values = source.below(9);
    file += little(source.nearly(name.size()), 4) + name + little(source.nearly(source.below(4)), 4) +
            little(source.nearly(values), 4);
    for (std::uint64_t j = 0; j < values; ++j)
      file += little(source.one_in(20) ? source.next() : 0x3F800000, 4);
  }
  if (source.one_in(2)) return file;
  return file + little(source.nearly(3), 4) + little(source.nearly(4), 4) + "text";
}

std::string gguf_text(Source& source, std::string_view text) {
  return little(source.nearly(text.size()), 8) + std::string(text);
}

std::string matrix_in_gguf(Source& source) {
  const std::uint64_t tensors = source.below(6);
  std::string file = "GGUF" + little(3, 4) + little(source.nearly(tensors), 8) + little(3, 8);
  file += gguf_text(source, "general.type") + little(8, 4) +
          gguf_text(source, source.one_in(12) ? "model" : "imatrix");
  file += gguf_text(source, "imatrix.chunk_count") + little(source.one_in(12) ? source.below(13) : 4, 4) +
          little(static_cast<std::uint64_t>(source.integer()), 4);
  file += gguf_text(source, "imatrix.datasets") + little(9, 4) + little(source.nearly(8), 4) +
          little(source.nearly(1), 8) + gguf_text(source, "text");
  std::uint64_t offset = 0;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const bool counts = i % 2 == 1;
    const std::string name = "blk." + std::to_string(i / 2) + ".attn_q.weight";
    const std::uint64_t rows = source.one_in(6) ? source.below(5) : 1, cols = counts ? 1 : 8;
    file += gguf_text(source, name + (source.one_in(20) ? ""
                                      : counts          ? ".counts"
                                                        : ".in_sum2")) +
            little(source.nearly(2), 4) + little(source.nearly(cols), 8) + little(source.nearly(rows), 8) +
            little(source.one_in(12) ? source.below(31) : 0, 4) + little(source.nearly(offset), 8);
    offset += 160;
    offset = (offset + 31) / 32 * 32;
  }
  file.resize((file.size() + 31) / 32 * 32, '\0');
  for (std::uint64_t i = 0; i < offset / 4; ++i)
    file += little(source.one_in(300) ? source.next() : 0x3F800000, 4);
  return file;
}

}  // namespace

/// Sums of its files that are right, nearly right, of others or none.
std::string hostile_checkpoint(Source& source) {
  static const std::vector<std::string_view> kKeys{"step", "version", "optimizer", "data", "loss"};
  const std::string state = hostile_json(source, kKeys);
  const std::string tensors = adapter_tensors(source);
  std::string sums;
  for (std::size_t n = source.one_in(2) ? 0 : source.one_in(10) ? 12000 : source.below(6); n > 0; --n) {
    const std::string digest(source.one_in(8) ? source.below(80) : 64, source.one_in(8) ? 'G' : 'a');
    sums += digest + (source.one_in(8) ? " " : "  ") +
            std::string(source.one_of({"trainer_state.json", "optimizer.safetensors", "../x", "..", ".", "",
                                       "/dev/zero", "\x1b[31m", "SHA256SUMS"})) +
            (source.one_in(20) ? "" : "\n");
  }
  return sums + '\x1E' + state + '\x1E' + tensors;
}

std::string hostile_matrix(Source& source) {
  return source.one_in(2) ? old_matrix(source) : matrix_in_gguf(source);
}

}  // namespace ingot::test
