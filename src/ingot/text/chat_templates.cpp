#include "ingot/text/chat_templates.h"

#include <algorithm>
#include <array>

namespace ingot::text {
namespace {

struct Named {
  std::string_view name, source;
};

constexpr std::string_view kChatMl = R"({%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%})";

constexpr std::string_view kLlama3 = R"({{- bos_token -}}
{%- for message in messages -%}
{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif -%})";

// Gemma knows no system role: what it would say begins the first question.
constexpr std::string_view kGemma = R"({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content | trim + '\n\n' -%}
{%- else -%}
{%- set role = 'model' if message.role == 'assistant' else message.role -%}
{{ '<start_of_turn>' + role + '\n' + ns.system + message.content | trim + '<end_of_turn>\n' }}
{%- set ns.system = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<start_of_turn>model\n' }}
{%- endif -%})";

constexpr std::string_view kPhi3 = R"({%- for message in messages -%}
{{ '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|assistant|>\n' }}
{%- endif -%})";

constexpr std::string_view kMistral = R"({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content + '\n\n' -%}
{%- elif message.role == 'user' -%}
{{ '[INST] ' + ns.system + message.content + ' [/INST]' }}
{%- set ns.system = '' -%}
{%- else -%}
{{ ' ' + message.content | trim + eos_token }}
{%- endif -%}
{%- endfor -%})";

constexpr std::array kTemplates{
    Named{"chatml", kChatMl}, Named{"llama3", kLlama3},      Named{"gemma", kGemma},    Named{"phi_3", kPhi3},
    Named{"phi_35", kPhi3},   Named{"mistral_v1", kMistral}, Named{"mistral", kMistral}};

}  // namespace

std::optional<std::string> chat_template_by_name(std::string_view name) {
  const auto found = std::ranges::find(kTemplates, name, &Named::name);
  if (found == kTemplates.end()) return std::nullopt;
  return std::string(found->source);
}

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  names.reserve(kTemplates.size());
  for (const Named& named : kTemplates) names.emplace_back(named.name);
  return names;
}

}  // namespace ingot::text
