#include <string>
#include <vector>

#include "ingot/train/language/train_keys.h"

namespace ingot {

const ConfigTable<AdapterTraining>& adapter_keys() {
  using Row = ConfigTable<AdapterTraining>::Field;
  constexpr auto lora = &AdapterTraining::lora;
  static const ConfigTable<AdapterTraining> table{
      {"Adapter",
       {
           Row::documented(
               "adapter", "none, lora, qlora",
               {.default_text = "none",
                .doc =
                    "Train low-rank adapters and nothing else; qlora: on a quantized base. `lora: true` is "
                    "adapter: lora."}),
           {"lora_r",
            lora,
            &LoraConfig::r,
            {.aliases = {"lora_rank"},
             .bounds = at_least(1),
             .default_text = "16",
             .doc = "Rank of the adapters."}},
           {"lora_alpha",
            lora,
            &LoraConfig::lora_alpha,
            {.default_text = "32", .doc = "An adapter is scaled by alpha / r."}},
           {"lora_use_rslora",
            lora,
            &LoraConfig::use_rslora,
            {.aliases = {"peft_use_rslora"}, .doc = "Scale by alpha / √r instead."}},
           {"lora_use_dora",
            lora,
            &LoraConfig::use_dora,
            {.aliases = {"peft_use_dora"},
             .doc = "DoRA: each row of a weight also learns its length. Keeps one activation more for each "
                    "module."}},
           {"lora_dropout",
            lora,
            &LoraConfig::lora_dropout,
            {.bounds = fraction(),
             .doc = "Share of each adapter's input that is dropped in training; adapters of the head and of "
                    "embeddings "
                    "drop nothing."}},
           Row::documented("lora_target_modules", "a list (text), or a regular expression",
                           {.default_text = "all linear layers but the head",
                            .doc = "Names of modules to adapt; one of experts (gate_proj) is that of each."}),
           Row::documented(
               "lora_target_linear", "true or false",
               {.default_text = "true without lora_target_modules",
                .doc = "Adapt all linear layers but the head, those of experts with the others."}),
           {"lora_target_parameters",
            lora,
            &LoraConfig::target_parameters,
            {.doc = "Stacks of experts to adapt: mlp.experts.gate_up_proj, mlp.experts.down_proj."}},
           {"lora_exclude_modules",
            lora,
            &LoraConfig::exclude_modules,
            {.doc = "Names of modules to leave out; experts: all of them."}},
           {"lora_layers_to_transform",
            lora,
            &LoraConfig::layers_to_transform,
            {.default_text = "all", .doc = "Only these layers, from 0."}},
           {"lora_modules_to_save",
            lora,
            &LoraConfig::modules_to_save,
            {.doc = "Modules trained as a whole, such as lm_head."}},
           {"lora_model_dir",
            &AdapterTraining::start_from,
            {.default_text = "none", .doc = "An adapter to go on from: a PEFT directory or a GGUF file."}},
           Row::documented("base_format",
                           "stored, nf4, nvfp4, fp8-128x128, int8, or any that `ingot quantize` lists",
                           {.aliases = {},
                            .default_text = "qlora: stored for a .gguf file, nf4 for others",
                            .doc = "Format of the base under an adapter. `load_in_4bit` is nf4, "
                                   "`load_in_8bit` is int8. fp8-128x128 has a scale for each tile, "
                                   "fp8 one for each row."}),
       }}};
  return table;
}

}  // namespace ingot
