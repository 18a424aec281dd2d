#!/usr/bin/env python3
"""Writes tests/data/chat_mask_goldens.json: which tokens of a chat are the assistant's, as transformers tells them.

Run with transformers==5.23.0. Templates are ours; tokenizers are those of tests/text/goldens. Each template has
{% generation %} blocks around what the assistant writes, the token that ends its turn included; masks are
apply_chat_template(return_assistant_tokens_mask=True).
"""
import json
import pathlib

import transformers
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

assert transformers.__version__.startswith("5.2"), transformers.__version__
ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "data" / "chat_mask_goldens.json"

CALL = [{"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 3}}}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
CHATS = {
    "one": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, you!"}],
    "turns": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"},
              {"role": "assistant", "content": "4"}, {"role": "user", "content": "größer? 你好 \"quoted\"\n\nnext"},
              {"role": "assistant", "content": "\n5, and then\n\n  6 – 你好."}],
    "same": [{"role": "user", "content": "yes"}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "yes"},
             {"role": "assistant", "content": "yes"}],
    "tools": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": CALL},
              {"role": "tool", "name": "weather", "content": "{\"t\": 7}"}, {"role": "assistant", "content": "7 °C there."}],
}
CHATML = """{%- if tools %}{{- '<|im_start|>system\\n' + tools | tojson + '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}{% generation %}
{%- if m.content %}{{- m.content }}{%- endif %}
{%- for call in m.tool_calls or [] %}{{- '<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>' }}{% endgeneration %}{{- '\\n' }}
{%- else %}{{- m.content + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
LLAMA3 = """{{- bos_token }}{%- for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{- m.content | trim + '<|eot_id|>' }}{% endgeneration %}
{%- else %}{{- m.content | trim + '<|eot_id|>' }}{%- endif %}
{%- endfor %}"""
INST = """{{- bos_token }}{%- for m in messages %}
{%- if m.role == 'assistant' %}{{- ' ' }}{% generation %}{{- m.content | trim + eos_token }}{% endgeneration %}
{%- elif m.role == 'user' %}{{- '[INST] ' + m.content + ' [/INST]' }}
{%- else %}{{- '<<' + m.content + '>>' }}{%- endif %}
{%- endfor %}"""
GEMMA = """{{- bos_token }}{%- for m in messages %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{- m.content | trim + eos_token }}{% endgeneration %}{{- '\\n' }}
{%- else %}{{- m.content | trim + eos_token + '\\n' }}{%- endif %}
{%- endfor %}"""
WORDS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{- 'ASSISTANT: ' }}{% generation %}{{- m.content + eos_token }}{% endgeneration %}{{- '\\n' }}
{%- else %}{{- m.role | upper + ': ' + m.content + '\\n' }}{%- endif %}
{%- endfor %}"""
# A space in front of a block is of its first token: RoBERTa's trimmed offsets know no token for a space that begins one.
# name: (tokenizer, bos, eos, template, chats)
SETS = {
    "chatml": ("qwen2", "", "<|im_end|>", CHATML, ["one", "turns", "same", "tools"]),
    "llama3": ("llama3", "<|begin_of_text|>", "<|eot_id|>", LLAMA3, ["one", "turns", "same"]),
    "inst": ("llama2", "<s>", "</s>", INST, ["one", "turns", "same"]),
    "inst_mistral": ("mistral3", "<s>", "</s>", INST, ["one", "turns", "same"]),
    "gemma": ("gemma", "<bos>", "<eos>", GEMMA, ["one", "turns", "same"]),
    "words": ("roberta", "<s>", "</s>", WORDS, ["one", "turns", "same"]),
}

rows = []
for name, (source, bos, eos, template, chats) in SETS.items():
    file = ROOT / "tests" / "text" / "goldens" / f"{source}.json"
    backend = Tokenizer.from_str(json.dumps(json.loads(file.read_text())["tokenizer"]))
    assert all(t in backend.get_vocab() for t in (bos, eos) if t), name  # transformers would add it
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos or None, eos_token=eos, chat_template=template)
    cases = []
    for chat in chats:
        tools = TOOLS if chat == "tools" else None
        got = tokenizer.apply_chat_template(CHATS[chat], tools=tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        cases.append({"chat": chat, "messages": CHATS[chat], "tools": tools, "ids": got["input_ids"], "mask": got["assistant_masks"]})
    assert all(any(c["mask"]) for c in cases), name
    rows.append({"name": name, "tokenizer": source, "bos": bos, "eos": eos, "template": template, "cases": cases})
OUT.write_text(json.dumps({"made_with": f"transformers {transformers.__version__}", "rows": rows}, ensure_ascii=False, separators=(",", ":")) + "\n")
