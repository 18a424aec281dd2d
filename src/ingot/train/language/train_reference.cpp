#include <string>
#include <utility>
#include <vector>

#include "ingot/train/language/train_keys.h"

namespace ingot {
namespace {

// Keys that no row reads: their defaults, or whether they may be there, follow from others.
ConfigSection documented(std::string heading, std::string prefix, std::vector<ConfigKey> keys) {
  if (!prefix.empty()) prefix += '.';
  for (ConfigKey& key : keys) key.key = prefix + key.key;
  return {std::move(heading), std::move(keys)};
}

ConfigSection architecture_section() {
  return documented(
      "Architecture, from scratch", "architecture",
      {{"model_type",
        {},
        "a family of decoders that `ingot models` lists",
        "llama",
        "",
        "What the model is like."},
       {"hidden_size", {}, "a whole number", "required", "", "Width."},
       {"num_hidden_layers", {}, "a whole number", "required", "", "Depth."},
       {"num_attention_heads", {}, "a whole number", "required", "", "Heads of queries."},
       {"num_key_value_heads", {}, "a whole number", "num_attention_heads", "", "Heads of keys and values."},
       {"head_dim", {}, "a whole number", "hidden_size / num_attention_heads", "", "Width of a head."},
       {"intermediate_size",
        {},
        "a whole number",
        "8/3 of the width, 4 of an MLP without gate",
        "",
        "Width of the MLP."},
       {"max_position_embeddings", {}, "a whole number", "2048", "tokens", "Longest sequence."},
       {"rope_theta", {}, "a number above 0", "10000", "", "Base of the rotary embedding."},
       {"rms_norm_eps", {}, "a number above 0", "1e-05", "", "Keeps norms finite."},
       {"tie_word_embeddings", {}, "true or false", "true", "", "The head is the embedding."},
       {"sliding_window", {}, "a whole number", "0", "tokens", "What attention sees; 0: all."},
       {"initializer_range", {}, "a number above 0", "0.02", "", "Standard deviation of the first weights."},
       {"vocab_size", {}, "a whole number", "the tokenizer's", "tokens", "Rows of the embedding."},
       {"num_experts", {"num_local_experts"}, "a whole number", "8", "", "Of mixtures of experts."},
       {"num_experts_per_tok", {}, "a whole number", "2", "", "Experts that see a token."},
       {"moe_intermediate_size",
        {},
        "a whole number",
        "intermediate_size",
        "",
        "Width of an expert (qwen3_moe)."},
       {"norm_topk_prob",
        {},
        "true or false",
        "true",
        "",
        "Weights of the chosen experts sum to 1 (qwen3_moe)."},
       {"decoder_sparse_step",
        {},
        "a whole number",
        "1",
        "",
        "Every so many layers is a mixture (qwen3_moe)."},
       {"mlp_only_layers", {}, "a list (a whole number)", "[]", "", "Layers without experts (qwen3_moe)."}});
}

ConfigSection objective_section() {
  return documented(
      "Objective", "",
      {{"rl",
        {},
        "sft, dpo, ipo, orpo, simpo, kto, grpo, gdpo",
        "sft",
        "",
        "What is learned: answers, preferences, rewards."},
       {"rl_beta",
        {"dpo_beta", "kto_beta", "simpo_beta"},
        "a number above 0",
        "0.1",
        "",
        "dpo, ipo, simpo, kto: how far the model may go from its reference."},
       {"orpo_alpha", {"orpo_beta"}, "a number, at least 0", "0.1", "", "orpo: weight of the odds ratio."},
       {"dpo_loss_type", {}, "sigmoid, hinge, robust, ipo", "sigmoid", "", "dpo: the loss."},
       {"dpo_label_smoothing",
        {},
        "a number, at least 0 and below 0.5",
        "0",
        "",
        "dpo, simpo: the share of labels that are wrong."},
       {"simpo_gamma", {}, "a number, at least 0", "0.5", "", "simpo: the margin."},
       {"cpo_alpha", {}, "a number, at least 0", "0", "", "simpo: weight of the chosen answer's likelihood."},
       {"kto_desirable_weight", {}, "a number, at least 0", "1", "", "kto: weight of good answers."},
       {"kto_undesirable_weight", {}, "a number, at least 0", "1", "", "kto: weight of bad answers."},
       {"rewards",
        {},
        "a list of mappings: type (regex, json, json_schema, math, command), weight, ...",
        "required by grpo",
        "",
        "grpo: what scores the answers (docs/fine-tuning.md)."},
       {"trl",
        {},
        "a mapping: num_generations, num_iterations, max_completion_length, temperature, beta, epsilon, "
        "loss_type, ...",
        "trl's",
        "",
        "grpo: as in trl (docs/fine-tuning.md)."}});
}

ConfigSection chat_section() {
  return documented(
      "Samples", "",
      {{"train_on_inputs", {}, "true or false", "false", "", "Learn the prompts too, not only the answers."},
       {"chat_template",
        {},
        "a name, or tokenizer_default",
        "the tokenizer's",
        "",
        "How messages become text (docs/fine-tuning.md)."},
       {"chat_template_jinja", {}, "text", "none", "", "A template of one's own."},
       {"chat_template_kwargs", {}, "a mapping", "{}", "", "Variables of the template."},
       {"eot_tokens", {}, "a list (text)", "[]", "", "Tokens that end a turn."},
       {"excess_length_strategy",
        {},
        "drop, truncate, raise",
        "drop",
        "",
        "What becomes of samples longer than sequence_len."},
       {"min_sample_length",
        {"min_sample_len"},
        "a whole number, at least 0",
        "0",
        "tokens",
        "Shorter samples are left out."},
       {"dataset_exact_deduplication",
        {},
        "true or false",
        "false",
        "",
        "Leave out samples that were there already."}});
}

ConfigSection dataset_section() {
  return documented(
      "Each of datasets", "datasets.N",
      {{"path",
        {},
        "text",
        "required",
        "",
        "A file, a directory (also of datasets' save_to_disk), or a data set of the Hub: "
        "hf://datasets/org/name, or org/name where it was "
        "fetched before."},
       {"name", {}, "text", "the default", "", "Of a data set of the Hub: which of its tables."},
       {"revision", {}, "text", "main", "", "Of a data set of the Hub: a branch, tag or commit."},
       {"type",
        {},
        "text, chat_template, alpaca and its kin, prompt_completion, or a mapping of fields",
        "as the first record looks",
        "",
        "What a record is (docs/fine-tuning.md)."},
       {"ds_type",
        {},
        "json, jsonl, csv, parquet, arrow, text",
        "by name and content",
        "",
        "How the file is written."},
       {"text_field",
        {"field", "text_column"},
        "text",
        "text",
        "",
        "The member or column that holds the text."},
       {"split",
        {},
        "text",
        "train",
        "",
        "Of a directory: files with this word in their names; of a data set of the Hub, its split; "
        "train[:10%], train[1000:2000]: these documents."},
       {"data_files",
        {},
        "a list (text)",
        "all",
        "",
        "Of a directory or a data set of the Hub: these files."},
       {"encoding",
        {},
        "a name of iconv",
        "utf-8",
        "",
        "Of files that are not UTF-8: latin1, cp1252, shift_jis ..."},
       {"field_messages", {}, "text", "messages", "", "Of chats: the member with the messages."},
       {"field_tools", {}, "text", "tools", "", "Of chats: the member with the tools."},
       {"field_system", {}, "text", "system", "", "Of chats: the member with the system prompt."},
       {"message_field_training",
        {},
        "text",
        "none",
        "",
        "Of chats: the member of a message that says whether it is learned."},
       {"drop_system_message", {}, "true or false", "false", "", "Of chats: leave system prompts out."},
       {"chat_template_jinja", {}, "text", "none", "", "Of chats: a template of one's own."},
       {"field_prompt", {}, "text", "prompt", "", "Of preferences: the member with the prompt."},
       {"field_chosen", {}, "text", "chosen", "", "Of preferences: the member with the better answer."},
       {"field_rejected", {}, "text", "rejected", "", "Of preferences: the member with the worse answer."},
       {"field_completion", {}, "text", "completion", "", "Of kto: the member with the answer."},
       {"field_label", {}, "text", "label", "", "Of kto: the member that says whether it is good."},
       {"message_property_mappings",
        {},
        "a mapping",
        "role, content",
        "",
        "Of chats: names of a message's members."},
       {"roles", {}, "a mapping", "user, assistant, system, tool", "", "Of chats: names of the roles."},
       {"roles_to_train", {}, "a list (text)", "[assistant]", "", "Of chats: whose messages are learned."},
       {"train_on_eos",
        {"train_on_eot"},
        "all, turn, last, none",
        "turn",
        "",
        "Of chats: which end tokens are learned."},
       {"chat_template", {}, "a name", "the run's", "", "Of chats: a template for this data set."}});
}

}  // namespace

std::vector<ConfigSection> train_reference() {
  std::vector<ConfigSection> sections = train_keys().reference();
  const std::vector<ConfigSection> adapter = adapter_keys().reference();
  sections.insert(sections.begin() + 1, adapter.begin(), adapter.end());
  for (ConfigSection& section :
       std::vector{objective_section(), chat_section(), dataset_section(), architecture_section()})
    sections.push_back(std::move(section));
  return sections;
}

}  // namespace ingot
