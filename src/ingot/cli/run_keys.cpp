#include "ingot/cli/run_keys.h"

namespace ingot::cli {

const ConfigTable<InferenceOptions>& run_keys() {
  using O = InferenceOptions;
  static const ConfigTable<O> table{{
      "How a model is run",
      {
          {"device",
           &O::device,
           {.doc = "auto: a GPU where there is one, else the CPU; or cpu, cuda, cuda:N."}},
          {"format",
           &O::format,
           {.doc = "Weights as stored, or f32, bf16, f16, q8_0, q4_k, ...: quantized when the model is "
                   "loaded."}},
          {"packed_cache",
           &O::packed_cache,
           {.doc = "Where packed weights are kept for the next start: auto (beside the model), off, or a "
                   "directory."}},
          {"adapters",
           &O::adapters,
           {.aliases = {"adapter"},
            .doc = "A LoRA adapter, a PEFT directory or a GGUF file: PATH or PATH=WEIGHT."}},
          {"kv_cache",
           &O::kv_cache,
           {.choices = {"auto", "f32", "bf16", "f16", "i8"},
            .doc = "What keys and values are kept in; auto: f16, but f32 where weights are f32."}},
          {"context",
           &O::context,
           {.bounds = at_least(0),
            .unit = "tokens",
            .doc = "Context length: tokens of a sequence at most; 0: the model's own limit."}},
          {"chunk",
           &O::chunk,
           {.bounds = at_least(1),
            .unit = "tokens",
            .doc = "Tokens of a prompt that go through the model at once."}},
          {"speculate",
           &O::speculate,
           {.bounds = between(0, 7),
            .unit = "tokens",
            .doc = "Tokens to draft, up to 7; the answer stays the same. 0: none, with draft_model 4."}},
          {"draft_model",
           &O::draft_model,
           {.aliases = {"speculative_model"},
            .doc = "A smaller model with the same tokens that drafts, in place of repetitions in the "
                   "sequence (speculative decoding)."}},
          {"tensor_parallel_size",
           &O::tensor_parallel_size,
           {.aliases = {"tensor_parallel", "tp"},
            .bounds = at_least(1),
            .unit = "ranks",
            .doc = "Ranks that have the model together, on processors: as many as `mpirun -n` starts."}},
          {"eager",
           &O::eager,
           {.doc = "On a GPU: launch kernel by kernel, not the captured step of a token."}},
      },
  }};
  return table;
}

}  // namespace ingot::cli
