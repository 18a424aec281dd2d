#include "ingot/models/language/llama_cpp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/language/gguf_names.h"

namespace ingot {
namespace {

// The head's matrix: the embedding where the file has none; asked for; never asked for.
enum class Head : std::uint8_t { optional, needed, tied };
enum class Windows : std::uint8_t { none, masked, masked_if_64_layers };
enum class RopeFactors : std::uint8_t { none, llama3, longrope, both };

// What the loader of an architecture asks for, as of llama.cpp b11549 (src/models). It counts
// tensors, so one too many is an error, too.
struct Reader {
  std::string_view architecture;
  Head head = Head::optional;
  Windows windows = Windows::none;
  RopeFactors factors = RopeFactors::none;
  bool partial_rope = false;  // rotates less than a head
  bool free_heads = true;     // heads × head_dim may differ from hidden_size
  bool grouped = true;        // fewer heads of keys than of queries
  std::string_view biases = kProjections;
  bool all_biases = false;           // none of them may be missing
  bool states = false;               // some layer scans, or corrects
  bool lists_windows = false;        // of layers, where they do not follow the family's habit
  bool two_kinds_of_layers = false;  // some slide, and keys are shared by kind
  bool streams = false;              // of Gemma 3n's sizes
  std::string_view instead = {};     // what it computes where the model has something else

  static constexpr std::string_view kProjections = "attn_q attn_k attn_v";
};

constexpr Reader kReaders[] = {
    {.architecture = "llama",
     .factors = RopeFactors::both,
     .biases = "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down"},
    {.architecture = "mistral3", .factors = RopeFactors::both},
    {.architecture = "llama4", .windows = Windows::masked, .factors = RopeFactors::llama3},
    {.architecture = "smollm3"},
    {.architecture = "apertus",
     .head = Head::needed,
     .factors = RopeFactors::both,
     .biases = "attn_q attn_k attn_v attn_output"},
    {.architecture = "arcee", .factors = RopeFactors::llama3},
    {.architecture = "seed_oss"},
    {.architecture = "ernie4_5", .biases = "attn_q attn_k attn_v attn_output"},
    {.architecture = "ernie4_5-moe", .biases = "attn_q attn_k attn_v attn_output exp_probs_b"},
    {.architecture = "hunyuan-dense"},
    {.architecture = "hunyuan-moe"},
    {.architecture = "qwen2", .free_heads = false},
    {.architecture = "qwen2moe", .head = Head::needed, .free_heads = false},
    {.architecture = "qwen3"},
    {.architecture = "qwen3moe"},
    {.architecture = "gemma", .head = Head::tied},
    {.architecture = "gemma2", .head = Head::tied, .windows = Windows::masked, .lists_windows = true},
    {.architecture = "gemma3", .windows = Windows::masked, .lists_windows = true},
    {.architecture = "gemma-embedding", .windows = Windows::masked, .lists_windows = true},
    {.architecture = "gemma3n",
     .windows = Windows::masked,
     .biases = "",
     .two_kinds_of_layers = true,
     .streams = true},
    {.architecture = "gemma4",
     .windows = Windows::masked,
     .partial_rope = true,
     .biases = "",
     .two_kinds_of_layers = true},
    {.architecture = "phi3",
     .factors = RopeFactors::longrope,
     .partial_rope = true,
     .free_heads = false,
     .biases = ""},
    {.architecture = "phi2",
     .head = Head::needed,
     .partial_rope = true,
     .free_heads = false,
     .biases = "output attn_q attn_k attn_v attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "gpt2",
     .free_heads = false,
     .biases = "attn_qkv attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "starcoder",
     .free_heads = false,
     .biases = "attn_qkv attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "olmo2",
     .head = Head::needed,
     .windows = Windows::masked,
     .free_heads = false,
     .lists_windows = true},
    {.architecture = "olmoe", .head = Head::needed, .free_heads = false, .grouped = false},
    {.architecture = "granite",
     .factors = RopeFactors::both,
     .biases = "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down"},
    {.architecture = "phimoe",
     .instead = "LayerNorm and SparseMixer (it computes RMSNorm, and weighs experts by a softmax)"},
    {.architecture = "granitemoe",
     .factors = RopeFactors::both,
     .biases = "attn_q attn_k attn_v attn_output"},
    {.architecture = "chatglm", .partial_rope = true, .free_heads = false},
    {.architecture = "glm4", .partial_rope = true},
    {.architecture = "glm4moe", .partial_rope = true, .biases = "attn_q attn_k attn_v exp_probs_b"},
    {.architecture = "command-r", .head = Head::tied, .partial_rope = true, .free_heads = false},
    {.architecture = "cohere2",
     .head = Head::tied,
     .windows = Windows::masked,
     .partial_rope = true,
     .free_heads = false,
     .lists_windows = true},
    {.architecture = "exaone4",
     .windows = Windows::masked_if_64_layers,
     .factors = RopeFactors::llama3,
     .free_heads = false},
    {.architecture = "starcoder2",
     .free_heads = false,
     .biases = "attn_q attn_k attn_v attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "nemotron",
     .head = Head::needed,
     .partial_rope = true,
     .free_heads = false,
     .biases = "attn_q attn_k attn_v attn_output ffn_up ffn_down"},
    {.architecture = "jais2",
     .biases = "attn_q attn_k attn_v attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "stablelm", .head = Head::needed, .partial_rope = true, .free_heads = false},
    {.architecture = "gptneox",
     .head = Head::needed,
     .partial_rope = true,
     .free_heads = false,
     .biases = "attn_qkv attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "gpt-oss",
     .head = Head::needed,
     .windows = Windows::masked,
     .biases = "attn_q attn_k attn_v attn_output ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps",
     .all_biases = true,
     .lists_windows = true},
    {.architecture = "deepseek2", .partial_rope = true, .biases = "exp_probs_b"},
    {.architecture = "dots1",
     .head = Head::needed,
     .grouped = false,
     .biases = "attn_q attn_k attn_v exp_probs_b"},
    {.architecture = "mamba2", .free_heads = true, .biases = "ssm_conv1d ssm_dt", .all_biases = true},
    {.architecture = "granitehybrid",
     .partial_rope = true,
     .free_heads = false,
     .biases = "attn_q attn_k attn_v attn_output ssm_conv1d ssm_dt ffn_gate ffn_up ffn_down",
     .states = true},
    {.architecture = "falcon-h1",
     .partial_rope = true,
     .biases = "attn_q attn_k attn_v ssm_conv1d ssm_dt ffn_gate ffn_up ffn_down",
     .states = true},
    {.architecture = "nemotron_h",
     .biases = "attn_q attn_k attn_v attn_output ssm_conv1d ssm_dt ffn_up ffn_down",
     .states = true},
    {.architecture = "nemotron_h_moe", .biases = "ssm_conv1d ssm_dt exp_probs_b", .states = true},
    {.architecture = "qwen3next", .partial_rope = true, .biases = "ssm_dt", .states = true},
    {.architecture = "qwen35", .partial_rope = true, .biases = "ssm_dt", .states = true},
    {.architecture = "qwen35moe", .partial_rope = true, .biases = "ssm_dt", .states = true},
    {.architecture = "lfm2", .free_heads = false, .biases = ""},
    {.architecture = "lfm2moe", .free_heads = false, .biases = "exp_probs_b"},
    {.architecture = "falcon", .free_heads = false, .biases = ""},
    {.architecture = "bloom",
     .free_heads = false,
     .biases = "attn_qkv attn_output ffn_up ffn_down",
     .all_biases = true},
    {.architecture = "mpt", .free_heads = false, .biases = ""},
    {.architecture = "olmo", .free_heads = false},
    {.architecture = "minimax-m2",
     .head = Head::needed,
     .partial_rope = true,
     .biases = "attn_q attn_k attn_v exp_probs_b"},
};

const Reader& reader_of(std::string_view architecture) {
  const auto* const found = std::ranges::find(kReaders, architecture, &Reader::architecture);
  INGOT_CHECK(found != std::end(kReaders),
              Error(fmt::format("llama_cpp.cpp lists no GGUF architecture '{}'", architecture)));
  return *found;
}

// "blk.3.attn_output.bias": attn_output.
std::string_view part_before_suffix(std::string_view name) {
  return part_of(name.substr(0, name.rfind('.')));
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(' ', at), list.size());
    all.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

std::optional<std::string> bias_objection(const Reader& reader, std::span<const ExportedTensor> tensors) {
  const std::vector<std::string_view> read = words(reader.biases);
  for (const ExportedTensor& tensor : tensors) {
    const std::string_view part = part_before_suffix(tensor.gguf);
    if (!tensor.gguf.ends_with(".bias") || part.ends_with("norm")) continue;
    if (std::ranges::find(read, part) == read.end())
      return fmt::format("the bias {} ({})", tensor.checkpoint, tensor.gguf);
  }
  if (!reader.all_biases) return std::nullopt;
  for (const ExportedTensor& tensor : tensors) {
    const std::string_view part = part_before_suffix(tensor.gguf);
    if (!tensor.gguf.ends_with(".weight") || std::ranges::find(read, part) == read.end()) continue;
    const std::string bias = tensor.gguf.substr(0, tensor.gguf.rfind('.')) + ".bias";
    if (std::ranges::find(tensors, bias, &ExportedTensor::gguf) == tensors.end())
      return fmt::format("a model without {}: {} needs a bias", bias, tensor.checkpoint);
  }
  return std::nullopt;
}

std::optional<std::string> head_objection(const Reader& reader, const LanguageConfig& c) {
  if (reader.head == Head::tied && !c.tie_word_embeddings)
    return "lm_head.weight: the head is the embedding (tie_word_embeddings true)";
  if (!reader.free_heads && c.num_attention_heads * c.head_dim != c.hidden_size)
    return fmt::format("head_dim {}: num_attention_heads {} times it must be hidden_size {}", c.head_dim,
                       c.num_attention_heads, c.hidden_size);
  if (!reader.grouped && c.num_key_value_heads != c.num_attention_heads)
    return fmt::format("num_key_value_heads {}: it must be num_attention_heads {}", c.num_key_value_heads,
                       c.num_attention_heads);
  return std::nullopt;
}

// Tables of layers' inputs have a row for each token there.
std::optional<std::string> input_objection(const LanguageConfig& c) {
  if (c.several_streams) return std::nullopt;  // are written so
  if (c.hidden_size_per_layer_input == 0 || c.vocab_size_per_layer_input == c.vocab_size) return std::nullopt;
  return fmt::format("vocab_size_per_layer_input {}: it must be vocab_size {}", c.vocab_size_per_layer_input,
                     c.vocab_size);
}

// Sizes that the loader takes for granted, whatever the file says (llama-hparams.h, models/gemma3n.cpp).
std::optional<std::string> stream_objection(const Reader& reader, const LanguageConfig& c) {
  if (!reader.streams) return std::nullopt;
  constexpr std::int64_t kSparse = 10, kWithKeys = 20;
  const auto shared = static_cast<double>(std::max<std::int64_t>(c.num_hidden_layers - kWithKeys, 0));
  struct Fixed {
    const char* key;
    double found, expected;
  };
  std::vector<Fixed> all{
      {"altup_num_inputs", static_cast<double>(c.altup_num_inputs), 4},
      {"altup_active_idx", static_cast<double>(c.altup_active_idx), 0},
      {"altup_correct_scale", c.altup_correct_scale ? 1.0 : 0.0, 1},
      {"laurel_rank", static_cast<double>(c.laurel_rank), 64},
      {"hidden_size_per_layer_input", static_cast<double>(c.hidden_size_per_layer_input), 256},
      {"num_kv_shared_layers", static_cast<double>(c.num_kv_shared_layers), shared},
      {"final_logit_softcapping", c.final_logit_softcapping, 30}};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    all.push_back({"activation_sparsity_pattern", c.sparsity(i), i < kSparse ? 0.95 : 0});
  for (const auto& [key, found, expected] : all)
    if (found != expected) return fmt::format("{} {}: it must be {}", key, found, expected);
  return std::nullopt;
}

// Of Gemma 3n and 4. Layers without keys read those of the last layer but one that has some where they slide,
// and of the last where they do not: the loader counts, and looks at no kinds.
std::optional<std::string> layer_objection(const Reader& reader, const LanguageConfig& c) {
  if (!reader.two_kinds_of_layers) return std::nullopt;
  if (c.sliding_window == 0 || !c.has_kind(LayerKind::sliding))
    return "layer_types without sliding_attention";
  const std::int64_t own = c.layers_with_keys();
  for (std::int64_t layer = own; layer < c.num_hidden_layers; ++layer) {
    const std::int64_t read = own - (c.slides(layer) ? 2 : 1);
    if (c.key_layer(layer) != read)
      return fmt::format("num_kv_shared_layers {}: layer {} reads the keys of layer {}, and of {} there",
                         c.num_kv_shared_layers, layer, c.key_layer(layer), read);
  }
  return std::nullopt;
}

// A text encoder of which some layers have windows.
std::optional<std::string> encoder_objection(const Reader& reader, const LanguageConfig& c) {
  if (reader.architecture == "gemma-embedding" && c.sliding_window == 0) return "sliding_window null";
  return std::nullopt;
}

std::optional<std::string> rope_objection(const Reader& reader, const LanguageConfig& c) {
  if (c.position != PositionKind::rope || c.mamba_layers) return std::nullopt;
  if (!reader.partial_rope && c.rotary_size() != c.head_dim)
    return fmt::format("partial_rotary_factor {}: whole heads rotate", c.partial_rotary_factor);
  if (reader.windows == Windows::masked_if_64_layers && c.num_hidden_layers != 64)
    for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      if (!c.rotates(layer)) return fmt::format("layer {} without RoPE: without 64 layers all rotate", layer);
  const bool llama3 = reader.factors == RopeFactors::llama3 || reader.factors == RopeFactors::both;
  const bool longrope = reader.factors == RopeFactors::longrope || reader.factors == RopeFactors::both;
  const std::string& type = c.rope_scaling.type;
  if ((type == "llama3" && !llama3) || (type == "longrope" && !longrope))
    return fmt::format("rope_scaling '{}'", type);
  return std::nullopt;
}

// The loader checks them.
std::optional<std::string> group_objection(const LanguageConfig& c) {
  if (c.num_experts == 0 || c.n_group <= 1) return std::nullopt;
  if (c.topk_group >= c.n_group)
    return fmt::format("topk_group {}: it must be below n_group {}", c.topk_group, c.n_group);
  if (c.n_group >= c.num_experts)
    return fmt::format("n_group {}: it must be below the {} experts", c.n_group, c.num_experts);
  return std::nullopt;
}

// Delta nets have one size of keys and values and one epsilon there, and Qwen 3 Next's layers all have
// experts.
std::optional<std::string> state_objection(const Reader& reader, const LanguageConfig& c) {
  if (!c.mamba_layers && c.attention_layers() == 0) return "layer_types without full_attention";
  if (!reader.states) return std::nullopt;
  if (!c.keeps_matrices()) return "layer_types without linear_attention";
  if (c.has_mamba() && !c.conv_bias) return "convolutions without a bias (mamba_conv_bias, use_conv_bias)";
  if (c.has_kind(LayerKind::delta) && c.linear_key_head_dim != c.linear_value_head_dim)
    return fmt::format("linear_value_head_dim {}: it must be linear_key_head_dim {}", c.linear_value_head_dim,
                       c.linear_key_head_dim);
  if (c.has_kind(LayerKind::delta) && std::abs(c.norm_eps - 1e-6) > 1e-9)  // of queries and keys there, too
    return fmt::format("rms_norm_eps {}: it must be 1e-6", c.norm_eps);
  if (reader.architecture == "qwen3next" && c.num_experts == 0) return "num_experts 0";
  return std::nullopt;
}

}  // namespace

bool llama_cpp_needs_output(std::string_view architecture) {
  return reader_of(architecture).head == Head::needed;
}

bool llama_cpp_lists_windows(std::string_view architecture) { return reader_of(architecture).lists_windows; }

std::optional<std::string> llama_cpp_objection(std::string_view architecture, const LanguageConfig& config,
                                               std::span<const ExportedTensor> tensors) {
  const Reader& reader = reader_of(architecture);
  if (!reader.instead.empty()) return std::string(reader.instead);
  if (auto objection = bias_objection(reader, tensors)) return objection;
  if (auto objection = head_objection(reader, config)) return objection;
  if (auto objection = state_objection(reader, config)) return objection;
  if (auto objection = group_objection(config)) return objection;
  if (auto objection = input_objection(config)) return objection;
  if (auto objection = stream_objection(reader, config)) return objection;
  if (auto objection = layer_objection(reader, config)) return objection;
  if (auto objection = encoder_objection(reader, config)) return objection;
  return rope_objection(reader, config);
}

std::int64_t window_that_llama_cpp_ignores(std::string_view architecture, const LanguageConfig& c) {
  const Reader& reader = reader_of(architecture);
  if (reader.windows == Windows::masked) return 0;
  if (reader.windows == Windows::masked_if_64_layers && c.num_hidden_layers == 64) return 0;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    if (const std::int64_t window = c.window(layer); window > 0 && window < c.max_position_embeddings)
      return window;
  return 0;
}

}  // namespace ingot
