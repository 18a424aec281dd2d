#pragma once

#include <array>

namespace ingot {

/// A training run that somebody published. bf16 states, ZeRO 1, sequences of 1024 tokens.
struct PublishedRow {
  const char* source;  ///< whose
  const char* model;   ///< a row of kPublishedModels
  const char* gpu;
  int gpus;
  bool fp8;
  bool full_recompute;  ///< where the states leave no memory for the activations of a micro-batch
  double tokens_per_second;
};

struct PublishedModel {
  const char* name;
  const char* family;
  long layers, hidden, intermediate, heads, kv_heads, vocabulary;
  bool tied;
};

inline constexpr std::array kPublishedModels{
    PublishedModel{"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 151936, true},
    PublishedModel{"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 151936, true},
    PublishedModel{"qwen2.5-3b", "qwen2", 36, 2048, 11008, 16, 2, 151936, true},
    PublishedModel{"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 152064, false},
    PublishedModel{"qwen2.5-14b", "qwen2", 48, 5120, 13824, 40, 8, 152064, false},
    PublishedModel{"qwen2.5-32b", "qwen2", 64, 5120, 27648, 40, 8, 152064, false},
    PublishedModel{"gpt2-124m", "gpt2", 12, 768, 3072, 12, 12, 50304, true},
    PublishedModel{"gpt2-350m", "gpt2", 24, 1024, 4096, 16, 16, 50304, true},
    PublishedModel{"gpt2-774m", "gpt2", 36, 1280, 5120, 20, 20, 50304, true},
    PublishedModel{"gpt2-1558m", "gpt2", 48, 1600, 6400, 25, 25, 50304, true},
};

/// LLMQ (arXiv 2512.15306, README of commit b77d969), 524,288 tokens a step; llm.c (README and
/// discussions at commit f1e2ace), times of steps turned into rates.
inline constexpr std::array kPublishedRows{
    PublishedRow{"LLMQ", "qwen2.5-0.5b", "rtx4090", 4, false, false, 154e3},
    PublishedRow{"LLMQ", "qwen2.5-0.5b", "rtx4090", 4, true, false, 181e3},
    PublishedRow{"LLMQ", "qwen2.5-1.5b", "rtx4090", 4, false, false, 52e3},
    PublishedRow{"LLMQ", "qwen2.5-1.5b", "rtx4090", 4, true, false, 72e3},
    PublishedRow{"LLMQ", "qwen2.5-3b", "rtx4090", 4, false, false, 26e3},
    PublishedRow{"LLMQ", "qwen2.5-3b", "rtx4090", 4, true, false, 38e3},
    PublishedRow{"LLMQ", "qwen2.5-7b", "rtx4090", 4, false, true, 11e3},
    PublishedRow{"LLMQ", "qwen2.5-7b", "rtx4090", 4, true, true, 16e3},
    PublishedRow{"LLMQ", "qwen2.5-14b", "rtx4090", 4, false, true, 5.2e3},
    PublishedRow{"LLMQ", "qwen2.5-14b", "rtx4090", 4, true, true, 7.8e3},
    PublishedRow{"LLMQ", "qwen2.5-32b", "rtx4090", 4, false, true, 2.2e3},
    PublishedRow{"LLMQ", "qwen2.5-32b", "rtx4090", 4, true, true, 3.4e3},
    PublishedRow{"LLMQ", "qwen2.5-0.5b", "h100", 8, false, false, 1127e3},
    PublishedRow{"LLMQ", "qwen2.5-0.5b", "h100", 8, true, false, 1285e3},
    PublishedRow{"LLMQ", "qwen2.5-1.5b", "h100", 8, false, false, 456e3},
    PublishedRow{"LLMQ", "qwen2.5-1.5b", "h100", 8, true, false, 564e3},
    PublishedRow{"LLMQ", "qwen2.5-3b", "h100", 8, false, false, 240e3},
    PublishedRow{"LLMQ", "qwen2.5-3b", "h100", 8, true, false, 313e3},
    PublishedRow{"LLMQ", "qwen2.5-7b", "h100", 8, false, false, 112e3},
    PublishedRow{"LLMQ", "qwen2.5-7b", "h100", 8, true, false, 159e3},
    PublishedRow{"LLMQ", "qwen2.5-14b", "h100", 8, false, false, 49e3},
    PublishedRow{"LLMQ", "qwen2.5-14b", "h100", 8, true, false, 74e3},
    PublishedRow{"llm.c", "gpt2-124m", "a100", 8, false, false, 1.75e6},
    PublishedRow{"llm.c", "gpt2-350m", "a100", 8, false, false, 639e3},
    PublishedRow{"llm.c", "gpt2-774m", "a100", 8, false, false, 308e3},
    PublishedRow{"llm.c", "gpt2-1558m", "h100", 8, false, false, 381e3},
};

}  // namespace ingot
