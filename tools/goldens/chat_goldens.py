#!/usr/bin/env python3
"""Writes tests/text/chat_goldens.json: what Jinja2, set up as `transformers` sets it up, makes of chat templates.

Run with jinja2==3.1.6. The templates are ours; each shows constructs that real ones use.
With file names as arguments, prints JSON lines for those templates instead (to try real ones).
"""
import json
import pathlib
import sys
from datetime import datetime, timezone

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

assert jinja2.__version__ == "3.1.6", jinja2.__version__
NOW = 1700000000
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "text" / "chat_goldens.json"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.fromtimestamp(NOW, timezone.utc).strftime(form)
    return env


CONVERSATIONS = {
    "single": [{"role": "user", "content": "Hi"}],
    "turns": [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "<think>\nsum\n</think>\n\n4 "},
              {"role": "user", "content": "Größer? 你好 \"quoted\" <b>&amp;</b>"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "look: "}, {"type": "image"}, {"type": "text", "text": "what?"}]}],
    "tools": [{"role": "user", "content": "Weather?"},
              {"role": "assistant", "content": None, "tool_calls": [{"id": "abc123xyz", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 3, "now": True, "x": None, "f": 1.5}}}]},
              {"role": "tool", "name": "weather", "tool_call_id": "abc123xyz", "content": "{\"t\": 7}"}, {"role": "assistant", "content": "7 °C"}],
    "wrong": [{"role": "assistant", "content": "me first"}],
    "empty": [],
}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the \"weather\"", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "enum": [1, 3]}}, "required": ["city"]}}}]

# Constructs of the language, one a line: methods, formats, filters, statements.
LANGUAGE = """
{{ tools | tojson(separators=(',', ':')) }}
{{ messages | tojson(ensure_ascii=True, sort_keys=true) }}
{{ 'é😀' | tojson(ensure_ascii=true) }}
[{{ '  Hello, Wörld\t'.swapcase() }}][{{ 'ΣΑΣ Σας'.lower() }}][{{ 'Straße'.casefold() }}]
[{{ 'a,b,c'.partition(',') }}][{{ 'a,b,c'.rpartition(',') }}][{{ 'abc'.partition('-') }}]
[{{ 'hello'.index('l') }}{{ 'hello'.rindex('l') }}{{ 'hello'.find('z') }}{{ 'hello'.find('l', 3) }}]
[{{ 'hello'.count('l', 3) }}{{ 'hello'.startswith('l', 2) }}{{ 'hello'.endswith('l', 0, 4) }}]
[{{ 'ab1'.isalnum() }}{{ 'ab1'.isalpha() }}{{ 'äb'.islower() }}{{ 'AB'.isupper() }}{{ '½'.isdecimal() }}{{ 'ab'.isascii() }}]
[{{ '7'.ljust(3) }}|{{ '7'.rjust(3, '*') }}|{{ '7'.center(4) }}|{{ 'ab'.center(5) }}|{{ '-7'.zfill(4) }}]
[{{ '%.2f %5d|%-5s|%05d %x %X %o %e %g %+d %% %r' % (3.14159, 42, 'ab', 7, 255, 255, 8, 12345.678, 0.5, 3, "q") }}]
[{{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }}]
[{{ '%s-%s' | format(1, 2) }}]
[{{ messages | groupby('role') | map('first') | list }}]
[{{ [1, 2, 3, 4, 5] | slice(2) | list }}{{ [1, 2, 3, 4, 5] | slice(3, 'x') | list }}]
{% for row in [1, 2, 3] | batch(2, '-') %}{{ row | join }};{% endfor %}
[{{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(1, 'ceil') }}]
[{{ [{'a': 1}, {'a': 2}] | max(attribute='a') }}{{ ['b', 'A'] | min }}]
[{{ 'a b&c/ü' | urlencode }}][{{ {'a': 1} | pprint }}][{{ 'hello big world' | truncate(9, false, '..', 0) }}]
[{{ ['a', 'A'] | unique | list }}{{ messages | unique(attribute='role') | map(attribute='role') | list }}]
[{{ 1 < 2 < 3 }}{{ 1 == 1 == 2 }}{{ 1 in [1] in [[1]] }}]
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{% block x %}y{% endblock %}
[{{ [1, 2][true] }}{{ [1, 2].copy() }}{{ '1_000' | int }}{{ ' 5 ' | int }}{{ 'a' is escaped }}]
{{ 'hello big-hearted well-to-do world -- and so-on, a--b x' | wordwrap(9) }}
{{ 'abcdefghij-klmnop qrs' | wordwrap(5) }}|{{ 'abcdefghij-klmnop qrs' | wordwrap(5, false) }}|{{ 'a bc  d\\n\\nefg h' | wordwrap(3, wrapstring='/') }}
{{ 'aa bb-cc dd' | wordwrap(6, break_on_hyphens=false) }}|{{ '   lead in' | wordwrap(4) }}|{{ 'Grüße 你好 👍 x' | wordwrap(3) }}
{{ {'a': 1, 'b': none, 'c': '<"&>'} | xmlattr }}|{{ {} | xmlattr }}|{{ {'a': 'b'} | xmlattr(false) }}
{{ {'a b': 1} | xmlattr }}
{{ [7] | random }}{{ [] | random }}{{ 'z' | random }}
{% for m in messages %}{{ loop.changed(m.role) }}{{ loop.changed(m.role, 1) }};{% endfor %}
{% for m in [1,1,none,none,'a'] %}{{ loop.changed(m) }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for (k, v) in {'p': 1}.items() %}{{ k }}{{ v }}{% endfor %}
{% macro f(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, 4) }}
{% macro f(a, b=2) %}{{ a }}{{ b }}{{ kwargs }}{% endmacro %}{{ f(1, z=3, y=4) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, z=2) }}
{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}body{% endcall %}
{% macro f(l) %}{% for i in l %}<{{ caller(i) }}>{% endfor %}{% endmacro %}{% set y = 9 %}{% for q in [1,2] %}{% call(i) f([1,2]) %}{{ i }}{{ q }}{{ y }}{% endcall %}{% endfor %}
{% macro f() %}{{ caller is defined }}{% if caller %}y{% else %}n{% endif %}{% endmacro %}{{ f() }}{% call f() %}{% endcall %}
{% macro f(caller=none) %}{{ caller is none }}{% endmacro %}{{ f() }}
{% macro f() %}x{% endmacro %}{% call f() %}b{% endcall %}
{{ {1: 'a', 'b': 2, none: 3, true: 4} }}{{ {1.0: 'x'}[1] }}{{ {true: 'q'}[1] }}{{ 1 in {1: 2} }}{{ {2: 1}.get(2) }}{{ {2: 1}.get(3, 'd') }}
{{ {1: 'a', 2: 'b'} | tojson }}{{ {true: 1, none: 2, 1.5: 3} | tojson }}{% for k in {3: 4} %}{{ k + 1 }}{% endfor %}
{{ {[1]: 2} }}
{{ dict([('a', 1), ['b', 2]], c=3) }}{{ dict({1: 2}, **{'x': 3}) }}
{{ dict(a=1, **{'a': 2}) }}
{{ range(*[1], 4) | list }}
{% macro f(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1, *[2, 3]) }}{{ f(1, c=4, *[2]) }}{{ f(*[1], **{'b': 2, 'c': 3}) }}
{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner(' | ') %}{% for i in [1,2,3] %}{{ j() }}{{ i }}{% endfor %}
{{ lipsum is defined }}{{ lipsum is callable }}{{ cycler is callable }}
{% block a %}x{{ messages | length }}{% endblock %}{{ self.a() }}{{ self is defined }}
{% for i in [1,2] %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}{% for i in [1,2] %}{% block c %}[{{ i }}]{% endblock c %}{% endfor %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': [{'v': 3}]}]}, {'v': 4}] recursive %}{{ n.v }}@{{ loop.depth }}{{ loop.depth0 }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for i in [1,2,3] %}{% set l = loop %}{% endfor %}{% for i in [1,2] %}{% for j in [1,2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for i in [1,2] %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}
{% with q = 5 %}{% macro g() %}{{ q }}{% endmacro %}{{ g() }}{% endwith %}
{% with a, b = 1 %}{% endwith %}
{% for i in [3,1] %}{% else %}e{% endfor %}{% for i in [] %}{% else %}e{% endfor %}{% for i in [1,2,3] if i > 1 %}{{ loop.index }}{{ i }}{{ loop.length }}{% endfor %}
{{ "it's a well-known fact" | wordcount }}{{ "it's a (well)-known [fact" | title }}|{{ "it's a (well)-known [fact".title() }}
{{ 'a' is test }}{{ 'odd' is test }}{{ 'upper' is filter }}
{{ 'ff' | int(0, 16) }}{{ '0x1f' | int(0, 16) }}{{ 'zz' | int(7) }}{{ '101' | int(base=2) }}
{{ 1000 | filesizeformat }}{{ 123456789 | filesizeformat(true) }}{{ 1 | filesizeformat }}{{ 12 | filesizeformat }}
{{ '<b>hi</b> &amp; <!-- c -->  you' | striptags }}
{{ '{} {1}'.format(1) }}
{{ '{} {}'.format(1, 'b') }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x:>5}|{y:03d}|{z:.2f}|{w!r}'.format(x='a', y=7, z=3.14159, w='q') }}{{ '{:,}'.format(1234567) }}{{ '{{}}'.format() }}
{{ '{0.role} {1[a]} {2[0]}'.format(messages[0], {'a': 1}, [5]) }}{{ '{:<6}|{:^6}|{:*>6}'.format('ab', 'cd', 'ef') }}{{ '{:+d} {:x} {:#x} {:b} {:e} {:%}'.format(5, 255, 255, 5, 12345.678, 0.25) }}
{{ 3.0.is_integer() }}
{{ (5).bit_length() }}{{ 2.5.is_integer() }}
{{ [3,1,2] | sort(reverse=true) | join('-') }}{{ ['b','A','a'] | sort(case_sensitive=true) }}{{ messages | map(attribute='role') | unique | sort | join(',') }}
{{ {'b': 1, 'a': 2} | dictsort }}{{ {'b': 1, 'a': 2} | dictsort(by='value') }}{{ {'b': 1}.items() | list }}
{{ {'a': {'b': [1, 2]}} | tojson(indent=2) }}
{{ [1, 2, 3] | sum }}{{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }}{{ [] | first is defined }}{{ [1,2,3] | last }}
{{ 5 // 2 }}{{ -5 // 2 }}{{ 5 % -3 }}{{ 2 ** 10 }}{{ 2 ** -1 }}{{ 7 / 2 }}{{ 1e3 }}{{ 1.5e-7 }}{{ 1e16 }}{{ 123456789012345680.0 }}{{ -0.0 }}
{{ 'abc' * 2 }}{{ [1] * 2 }}{{ 'a' ~ 1 ~ none ~ true }}{{ (1, 2) + (3,) }}{{ 'x' in 'xyz' }}{{ 1 if false }}|
{{ 'a' if x else 'b' }}{{ not x }}{{ x is string and x is not none }}{{ x | trim | upper | lower | capitalize }}
{{ ('a', 'b')[1] }}{{ (1, 2, 3)[::2] }}{{ 'abcdef'[1:-1:2] }}{{ 'abc'[::-1] }}{{ [1,2,3][-1] }}{{ [1,2][5] }}|
{% set x %}  a{{ 1 }} {% endset %}[{{ x }}]{% set y | upper | trim %} b {% endset %}[{{ y }}]{% filter upper | replace('B', 'c') %}ab{% endfilter %}
{%- for i in range(3) -%} {{ i }} {%- if i == 1 %}{% break %}{% endif -%} {%- endfor -%}
  {% raw %}{{ x }}{% endraw %}  {# c #} {%+ if true %} q {% endif +%} z
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | join(' ') }}{{ [1,2,3] | select('odd') | list }}{{ ['a', ''] | select | list }}{{ ['a','b'] | map('upper') | list }}{{ [0,1] | reject | list }}
{{ messages | map(attribute='name', default='-') | join }}{{ [[1,2],[3]] | map('length') | list }}{{ ['1','2'] | map('int') | sum }}
{{ undefinedthing.foo }}
[{{ '%c%c' % (65, 'é') }}{{ '{0.role}'.format(messages[0]) if messages }}]
"""

TEMPLATES = {
    "chatml": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages and messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\\n" }}
{{- system_message }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ (message['content'] | trim if message.content is string else message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join) + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- tool_call.name + "(" }}
        {%- for arg_name, arg_val in tool_call.arguments | items %}
            {{- arg_name + '="' ~ arg_val ~ '"' }}
            {%- if not loop.last %}{{ ", " }}{% endif %}
        {%- endfor %}
        {{- ")" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}""",
    "inst": """{%- if messages|length > 0 and messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("conversation roles must alternate: " ~ message.role) }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
            {%- endfor %}
            {{- "] [/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " }}{%- if loop.last and system_message is defined %}{{ system_message + "\\n\\n" }}{% endif %}
        {%- if message.content is not string %}{% for c in message.content %}{% if c.type == 'text' %}{{ c.text }}{% else %}[IMG]{% endif %}{% endfor %}
        {%- else %}{{ message["content"] }}{% endif %}
        {{- " [/INST]" }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message.role == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + "}" }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
""",
    "turns": """{{ bos_token }}{% if messages %}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' }}
    {% if message.content is string %}
    {{ message.content | trim }}
    {% elif message.content is iterable %}
      {% for item in message.content %}
  {# a comment   #}
        {%+ if item['type'] == 'image' +%}
<image>
        {% elif item.type == 'text' -%}
            {{ item['text'] | trim }}
        {%- endif %}
      {% endfor %}
    {% else %}
    none
    {% endif %}
{{ '<end_of_turn>' }}{% endfor %}
{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}
""",
    "channels": """{#- Types in the way of TypeScript, by a macro that calls itself, and channels: what gpt-oss' template does. #}
{%- macro type_of(spec, required, nullable=false) -%}
    {%- if spec.type == "array" -%}
        {{- type_of(spec['items'], required) + "[]" if spec['items'] else "any[]" }}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}
            {{- '"' + spec.enum|join('" | "') + '"' -}}
        {%- else -%}
            {{- "string" }}{%- if nullable %}{{- " | null" }}{%- endif -%}
        {%- endif -%}
    {%- elif spec.type == "integer" -%}
        {{- "number" }}
    {%- elif spec.type == "object" -%}
        {{- "{\\n" }}
        {%- for name, inner in spec.properties.items() -%}
            {{- name + ("" if name in (spec.required or []) else "?") + ": " }}{{ type_of(inner, required, nullable=true) }}
            {%- if not loop.last %}{{- ", " }}{% endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro namespace_of(name, functions) -%}
    {{- "## " + name + "\\n\\n" }}{{- "namespace " + name + " {\\n\\n" }}
    {%- for function in functions %}
        {%- set function = function.function %}
        {{- "// " + function.description + "\\n" }}{{- "type " + function.name + " = (_: " + type_of(function.parameters, []) + ") => any;\\n\\n" }}
    {%- endfor %}
    {{- "} // namespace " + name }}
{%- endmacro -%}
{{- "<|start|>system<|message|>Current date: " + strftime_now("%Y-%m-%d") + "\\nReasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") + "<|end|>" }}
{%- if messages and messages[0].role in ["developer", "system"] %}
    {%- set instructions = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}
    {%- set instructions = "" %}{%- set rest = messages %}
{%- endif %}
{%- if instructions or tools %}
    {{- "<|start|>developer<|message|>" }}{%- if instructions %}{{- "# Instructions\\n\\n" + instructions }}{%- endif %}{%- if tools -%}{{- namespace_of("functions", tools) }}{%- endif -%}{{- "<|end|>" }}
{%- endif %}
{%- set last = namespace(name=none) %}
{%- for message in rest -%}
    {%- if message.role == 'assistant' -%}
        {%- if message.content is string and "<|channel|>" in message.content %}{{- raise_exception("channels are in the content") }}{%- endif %}
        {%- if "tool_calls" in message %}
            {%- set call = message.tool_calls[0] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}{{- call.arguments|tojson }}{{- "<|call|>" }}
            {%- set last.name = call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" ~ message.content ~ "<|end|>" }}{%- set last.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last.name is none %}{{- raise_exception("a tool's message without a call") }}{%- endif %}
        {{- "<|start|>functions." + last.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" ~ message.content ~ "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
""",
    "language": """{% macro show(x, label='v', sep=': ') %}{{ label }}{{ sep }}{{ x }}
{% endmacro %}
{{ show(1) }}{{ show([1, 'a', 2.5, none, true, {'k': 'v\\'s'}]) }}{{ show(x='q', label="l") }}
{% set joined %}{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}{% endset %}
[{{ joined }}] {{ joined|length }}
{% for i in range(10) if i % 2 %}{% if i == 7 %}{% break %}{% endif %}{% if i == 3 %}{% continue %}{% endif %}{{ loop.index }}:{{ i }} {{ loop.first }} {{ loop.previtem }} {{ loop.nextitem }};{% else %}none{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 10 * 1.0 }} {{ 'ab' * 3 }} {{ -3|abs }} {{ 1_000 }}
{{ 'abc'[0] }}{{ 'abc'[-1] }} {{ 'héllo'[1:3] }} {{ 'abc'[::-1] }} {{ [1,2,3][1:] }} {{ [1,2,3][-2:] }} {{ 'abcdef'[1:5:2] }} {{ 'x'[5] is defined }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ 'a b c'.rsplit(None, 1) }} {{ 'xxhixx'.strip('x') }} {{ 'AbC'.lower() }} {{ 'straße'.upper() }} {{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }}
{{ 'a.b.c'.replace('.', '-', 1) }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('bc') }} {{ 'banana'.find('n') }} {{ 'banana'.count('an') }} {{ ', '.join(['x', 'y']) }} {{ 'l1\\nl2\\r\\nl3'.splitlines() }}
{{ {'a': 1, 'b': [1, 2]}|tojson }} {{ {'b': 1, 'a': {}}|tojson(indent=2) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ 'é"\\n<'|tojson }} {{ [1.0, 1e20, 1e-7, 123456789.125]|tojson }}
{{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A']|sort(case_sensitive=true) }} {{ [3, 1]|sort(reverse=true) }} {{ {'b': 1, 'a': 2}|dictsort }} {{ [1, 2, 2, 1]|unique|list }} {{ [1, 2, 3]|sum }} {{ [1, 5, 3]|max }} {{ [4, 2]|min }}
{{ [1, 2, 3, 4]|select('even')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [{'n': 1, 'on': true}, {'n': 2}]|selectattr('on')|map(attribute='n')|list }} {{ [{'n': 1}, {'n': 2}]|rejectattr('n', 'eq', 1)|list }} {{ ['a', 'b']|map('upper')|join('+') }}
{{ missing is defined }} {{ missing|default('d') }} {{ ''|default('d', true) }} {{ missing }}|{{ missing|length }} {{ none is none }} {{ 1 is number }} {{ true is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ [] is iterable }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 1 is not none }} {{ 'a' is in ['a'] }}
{{ 1 if true else 2 }} {{ 'x' if false }} {{ not true or true and false }} {{ 1 < 2 and 2 >= 2 }} {{ 'a' in 'abc' }} {{ 'z' not in ['a'] }} {{ 'k' in {'k': 1} }} {{ 1 == 1.0 }} {{ 'a' ~ 1 ~ none ~ true }} {{ (1, 2) | length }} {{ [1] + [2] }}
{{ '3'|int + 1 }} {{ 'x'|int(7) }} {{ '2.5'|float }} {{ 3.7|int }} {{ 2.567|round(1) }} {{ 'a\\nb'|indent(2) }} {{ 'a\\nb'|indent(2, true) }} {{ '<&>'|escape }} {{ 'abc'|first }}{{ [1,2]|last }} {{ 'cba'|reverse }} {{ [1,2]|reverse|list }} {{ 'a b c'|wordcount }}
{{ '%s is %d'|string % ('x', 3) }} {{ {'a': {'b': 1}}.a.b }} {{ {'a': 1}.get('z', 'none') }} {{ {'a': 1}.get('a') }} {{ {'a': 1, 'b': 2}.keys()|list }} {{ {'a': 1}.values()|list }} {% for k, v in {'x': 1}.items() %}{{ k }}={{ v }}{% endfor %}
{% filter upper %}filtered {{ 'text' }}{% endfilter %}
{% raw %}{{ not evaluated }} {% if %}{% endraw %}
{% generation %}generated{% endgeneration %}
{% set a, b = 1, 'two' %}{{ a }}{{ b }}
{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}
{%- set outer = namespace(count=0, items=[]) -%}
{% for i in range(4) %}{% set outer.count = outer.count + i %}{% set outer.items = outer.items + [i] %}{% endfor %}
{{ outer.count }} {{ outer.items }}
{{ loop is defined }} {% for a in 'xy' %}{% for b in 'pq' %}{{ a }}{{ b }}{{ loop.index }}{{ loop.length }}{{ loop.revindex }} {% endfor %}{% endfor %}
{{ 'tab\\tnew\\\\ \\x41 \\u00e9' }} {{ "it's" }} {{ 'say "hi"' }} {{ ['it\\'s', "a\\nb"] }}
   {% if true %}
indented block
   {% endif %}
   {{ 'kept' }}  {# comment #}
{#- gone -#}   end
""",
}

ERRORS = {
    "undefined attribute": "{{ a.b.c }}", "undefined call": "{{ f() }}", "bad syntax": "{% if %}", "unclosed": "{{ 1", "unknown tag": "{% include 'x' %}",
    "unknown filter": "{{ 1|nope }}", "add": "{{ 1 + 'a' }}", "raise": "line one\n{{ raise_exception('no!') }}", "zero": "{{ 1 // 0 }}", "missing end": "{% for x in [1] %}",
    "private": "{{ ''.__class__.__mro__[1] }}", "append": "{% set x = [] %}{{ x.append(1) }}",
}


def inputs():
    for name, messages in CONVERSATIONS.items():
        yield {"messages": messages, "tools": TOOLS if name == "tools" else None, "add_generation_prompt": name in ("single", "turns", "tools"),
               "bos_token": "<s>", "eos_token": "</s>", "variables": {"enable_thinking": False} if name == "turns" else {}}


def render(source, given):
    variables = {k: v for k, v in given.items() if k != "variables"} | given["variables"] | {"documents": None}
    try:
        return {"output": environment().from_string(source).render(**variables)}
    except Exception as error:  # whatever Jinja or the template raises: the golden says that it does
        return {"error": str(error)}


def main():
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            source = pathlib.Path(path).read_text()
            for given in inputs():
                print(json.dumps({"name": path, "template": source, "input": given} | render(source, given), ensure_ascii=False))
        return
    rows = []
    for name, source in TEMPLATES.items():
        rows.append({"name": name, "template": source, "cases": [{"input": i, **render(source, i)} for i in inputs()]})
    first = next(inputs())
    with_tools = next(i for i in inputs() if i["tools"])
    for source in LANGUAGE.strip().splitlines():
        rows.append({"name": "language", "template": source, "cases": [{"input": with_tools, **render(source, with_tools)}]})
    for name, source in ERRORS.items():
        rows.append({"name": "error: " + name, "template": source, "cases": [{"input": first, **render(source, first)}]})
    OUT.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
