#include "ingot/train/language/memory_keys.h"

#include <string>

namespace ingot {

using Table = ConfigTable<TrainConfig>;
using Field = Table::Field;

Table::Section memory_keys() {
  return {
      "Memory",
      {
          Field::documented("recompute", "false, selective, true (or full)",
                            {.aliases = {"gradient_checkpointing"},
                             .default_text = "false",
                             .doc = "What the backward pass recomputes instead of keeping it; same bits. "
                                    "selective: norms, activation "
                                    "functions, RoPE, sorted rows of experts; true: whole layers, of which "
                                    "only the input is kept. "
                                    "`ingot memory` tells what each saves."}),
          Field::words(
              "offload_gradients", [](TrainConfig& c) -> Offload& { return c.optimizer.gradients; },
              [](const std::string& word) { return parse_offload(word, "offload_gradients"); },
              [](Offload offload) { return name(offload); },
              {.choices = {"none", "cpu", "disk", "nvme"},
               .doc =
                   "Where gradients are from the backward pass to the optimizer's step; same bits. cpu: each "
                   "goes to page-locked memory of the host as soon as it is final, and comes back when a "
                   "further micro-batch adds to it; on a CPU they are there anyway. disk (nvme): in files "
                   "without a name in `output_dir`."}),
          Field::words(
              "offload_weights", [](TrainConfig& c) -> Offload& { return c.offload_weights; },
              [](const std::string& word) { return parse_offload(word, "offload_weights"); },
              [](Offload offload) { return name(offload); },
              {.aliases = {"offload_param", "offload_params", "layer_offloading"},
               .choices = {"none", "cpu", "disk", "nvme"},
               .doc =
                   "Where the matrices of layers are while their layer does not compute; same bits. cpu: in "
                   "page-locked memory of the host, from where those of the next layer come to a GPU "
                   "meanwhile; on a CPU they are there anyway. disk (nvme): in mapped files, those of a "
                   "frozen base or one without a name in `output_dir`."}),
          Field::words(
              "offload_activations", [](TrainConfig& c) -> Offload& { return c.offload_activations; },
              [](const std::string& word) { return parse_offload(word, "offload_activations"); },
              [](Offload offload) { return name(offload); },
              {.aliases = {"activation_offloading"},
               .choices = {"none", "cpu", "disk", "nvme"},
               .doc =
                   "Where the inputs of layers are from the forward to the backward pass; same bits. It is "
                   "for `recompute: true`, which it asks for where that is not given. cpu: in page-locked "
                   "memory of the host, from where that of the next layer comes to a GPU meanwhile; on a CPU "
                   "they are there anyway. disk (nvme): in files without a name in `output_dir`."}),
          {"mlp_chunk",
           &TrainConfig::mlp_chunk,
           {.bounds = at_least(0),
            .unit = "tokens",
            .doc =
                "So many tokens go through an MLP at a time, and what it computes for them is recomputed in "
                "the backward pass; 0: all at once. For long sequences. Gradients of the MLPs' weights are "
                "summed in this order, and so rounded otherwise. Of a mixture, so many tokens go through "
                "their experts at a time; not where `expert_parallel_size` shares experts out."}},
          {"memory_limit",
           &TrainConfig::memory_limit,
           &MemoryLimit::limit,
           {.default_text = "none",
            .doc = "Choose `recompute`, `offload_optimizer`, `offload_gradients`, `offload_weights` and "
                   "`offload_activations`, where they are not given, so "
                   "that the plan fits into so much memory (`24GB`), or into what is free (`auto`): the "
                   "fastest that does, with the same bits. `ingot memory` shows the combinations."}},
      }};
}

}  // namespace ingot
