#include "ingot/text/chat_template.h"

#include <cstdlib>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/text/chat_templates.h"

namespace ingot::text {
namespace {

using nlohmann::ordered_json;

ChatInput input_of(const ordered_json& given) {
  ChatInput input;
  input.messages = dump_json(given["messages"]);
  input.tools = dump_json(given["tools"]);
  input.variables = dump_json(given["variables"]);
  input.add_generation_prompt = given["add_generation_prompt"];
  input.bos_token = given["bos_token"];
  input.eos_token = given["eos_token"];
  input.now = 1700000000;
  return input;
}

std::string render(const std::string& source, const ChatInput& input = {},
                   const ChatTemplateLimits& limits = {}) {
  return ChatTemplate(source, limits).render(input);
}

std::string refusal(const std::string& source, const ChatTemplateLimits& limits = {}) {
  try {
    return "(rendered) " + render(source, {}, limits);
  } catch (const TemplateError& e) {
    return e.what();
  }
}

TEST(ChatTemplate, EqualsJinja) {
  const std::string path = test::source_dir() + "/tests/text/chat_goldens.json";
  for (const auto& row : parse_json<ordered_json>(read_file(path), path)) {
    for (const auto& c : row["cases"]) {
      SCOPED_TRACE(row["name"].get<std::string>() + " " + dump_json(c["input"]["messages"]));
      const auto rendered = [&] { return render(row["template"], input_of(c["input"])); };
      if (c.contains("error"))
        EXPECT_THROW(rendered(), TemplateError) << c["error"];
      else
        EXPECT_EQ(rendered(), c["output"].get<std::string>());
    }
  }
}

// tools/goldens/random_templates.py: constructs in any combination. INGOT_RANDOM_TEMPLATES names a file of
// others.
TEST(ChatTemplate, RandomOnesEqualJinja) {
  const char* others = std::getenv("INGOT_RANDOM_TEMPLATES");
  const std::string path =
      others != nullptr ? others : test::source_dir() + "/tests/text/random_templates.json";
  const auto file = parse_json<ordered_json>(read_file(path), path);
  const ChatInput input{.messages = dump_json(file["messages"]),
                        .tools = dump_json(file["tools"]),
                        .add_generation_prompt = true,
                        .bos_token = "<s>",
                        .eos_token = "</s>"};
  for (const auto& c : file["cases"]) {
    const std::string source = c["template"];
    SCOPED_TRACE(source);
    std::string error, output;
    try {
      output = render(source, input);
    } catch (const TemplateError& refused) {
      error = refused.what();
    }
    EXPECT_EQ(!error.empty(), c.contains("error")) << error << '\n' << c;
    if (error.empty() && c.contains("output")) EXPECT_EQ(output, c["output"].get<std::string>());
  }
}

TEST(ChatTemplate, ThoseOfKnownFormatsWriteWhatTheirModelsRead) {
  ChatInput input;
  input.messages = messages_json({{"system", "S"}, {"user", "Q"}, {"assistant", "A"}, {"user", "R"}});
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.add_generation_prompt = true;
  const auto text = [&](const char* name) { return render(*chat_template_by_name(name), input); };
  EXPECT_EQ(
      text("chatml"),
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
      "<|im_start|>user\nR<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text("gemma"),
            "<s><start_of_turn>user\nS\n\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_"
            "turn>user\nR"
            "<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(text("llama3"),
            "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_"
            "id|>\n\nQ"
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user"
            "<|end_header_id|>\n\nR<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(text("phi_3"),
            "<|system|>\nS<|end|>\n<|user|>\nQ<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nR<|end|>\n<|"
            "assistant|>\n");
  EXPECT_EQ(text("mistral"), "<s>[INST] S\n\nQ [/INST] A</s>[INST] R [/INST]");
  EXPECT_FALSE(chat_template_by_name("chatlm").has_value());
}

TEST(ChatTemplate, TellsWhatGenerationBlocksWrote) {
  const auto generated = [](const std::string& source) {
    const RenderedChat chat = ChatTemplate(source).render_marked({});
    std::string out;
    for (const auto& [begin, end] : chat.generated) out += "[" + chat.text.substr(begin, end - begin) + "]";
    return out;
  };
  EXPECT_EQ(generated("a{% generation %}b{{ 1 }}{% endgeneration %}c{% generation %}d{% endgeneration %}"),
            "[b1][d]");
  EXPECT_EQ(generated("{% for i in [1, 2] %}x{% generation %}{{ i }}{% endgeneration %}{% endfor %}"),
            "[1][2]");
  EXPECT_EQ(
      generated("a{% macro m(x) %}-{% generation %}{{ x }}{% endgeneration %}{% endmacro %}b{{ m('c') }}"),
      "[c]");
  EXPECT_EQ(generated("{% generation %}{% endgeneration %}none"), "");
  EXPECT_EQ(generated("{% filter upper %}a{% generation %}b{% endgeneration %}{% endfilter %}"),
            "");  // not found again
  EXPECT_EQ(generated("{% set x %}a{% generation %}b{% endgeneration %}{% endset %}zz{{ x }}"), "");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(refusal("one\ntwo {{ 1 // 0 }}"), "chat template, line 2: division by zero");
  EXPECT_EQ(refusal("{% if x %}\n\n"), "chat template, line 2: the template ends before {% endif %}");
  EXPECT_EQ(refusal("\n{{ raise_exception('only users') }}"),
            "chat template, line 2: the template refuses: only users");
  EXPECT_EQ(refusal("{% include 'secret' %}"), "chat template, line 1: the tag \"include\" is not supported");
}

TEST(ChatTemplate, LimitsStopHostileTemplates) {
  ChatTemplateLimits limits;
  limits.steps = 1'000'000;
  const auto stops = [&](const std::string& source) {
    const std::string said = refusal(source, limits);
    EXPECT_EQ(said.find("(rendered)"), std::string::npos) << source;
  };
  stops("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  stops("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}");
  stops("{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}");
  stops("{% set n = namespace(s=[1]) %}{% for i in range(9999) %}{% set n.s = [n.s] %}{% endfor %}");
  stops("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  stops("{{ 'x' * 999999999999 }}");
  stops("{{ ('x' * 9999999) .replace('', 'y' * 99999) }}");
  stops("{{ 9 ** 99 ** 99 }}");
  stops("{{ range(999999999) }}");
  stops(std::string(100000, '(') + "{{ 1 }}" + "{{ " + std::string(100000, '(') + " }}");
  stops("{{ " + std::string(100000, '-') + "1 }}");
  stops("{{ 1" + std::string(5000, '[') + " }}");
  stops("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  stops("{% block a %}{{ self.a() }}{% endblock %}");
  stops("{% macro f() %}{{ caller() }}{% call f() %}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}");
  stops("{{ '{:99999999}'.format(1) }}");
  std::string deep = "{{ 1 }}";
  for (int i = 0; i < 2000; ++i) deep = "{% if true %}" + deep + "{% endif %}";
  stops(deep);
}

// A value whose parts are shared is small in memory and endless when written, compared or sorted.
TEST(ChatTemplate, EveryOperationIsTakenFromTheBudget) {
  ChatTemplateLimits limits;
  limits.steps = 200'000;
  limits.output_bytes = 8 << 20;
  const std::string
      shared =
          "{% set n = namespace(x=['a'], y=['a']) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}"
          "{% set n.y = [n.y, n.y] %}{% endfor %}",
      large = "{% set s = 'a' * 2000000 %}{% set t = 'a' * 1000000 ~ 'b' %}",
      long_list = "{% set l = range(9999) | list %}";
  for (const std::string& source :
       {shared + "{{ n.x }}", shared + "{{ n.x | tojson }}", shared + "{{ n.x == n.y }}",
        shared + "{{ n.x in [n.y] }}", shared + "{{ n.x < n.y }}",
        shared + "{{ [n.x, n.y] | unique | length }}", shared + "{{ [n.x, n.y] | sort | length }}",
        shared + "{{ [n.x] | join }}", shared + "{{ '%s' % [n.x] }}", shared + "{{ [n.x].index(n.y) }}",
        shared + "{{ [n.x].count(n.y) }}", shared + "{{ [n.x, n.y] | max }}", shared + "{{ n.x ~ '' }}",
        shared + "{{ 'a' in n.x | string }}",
        large +
            "{% for i in range(99) %}{{ s.find(t) }}{{ s.rfind(t) }}{{ t in s }}{{ s.count(t) }}{% endfor %}",
        large + "{% for i in range(99) %}{% if s[i:] == s %}{% endif %}{% endfor %}",
        large + "{% set u = s | urlencode %}",
        long_list + "{% for i in l %}{% if l == l %}{% endif %}{% endfor %}",
        long_list + "{{ l | map('string') | unique | length }}",
        long_list + "{% for i in l %}{{ l | select('in', l) | length }}{% endfor %}",
        // What is given to an operation counts, as what it works on does.
        large + "{{ s.strip('b' * 1000000 ~ 'a') }}{% for i in range(99) %}{{ s.strip(t) }}{% endfor %}",
        large + "{{ s | wordwrap(1) | length }}", large + "{{ ('-' * 1000000) | wordwrap(2) | length }}",
        large + "{{ s.startswith([t] * 9999) }}",
        large +
            "{% set j = joiner(s) %}{% for i in range(99) %}{{ ''.find(t) }}{{ j() | length }}{% endfor %}",
        large + "{% for i in range(99) %}{{ 1 | tojson(separators=(s, s)) | length }}{% endfor %}",
        large + "{% for i in range(99) %}{{ '' | indent(s) }}{% endfor %}",
        large + "{% set d = {t: 1, s: 2} %}{% for i in range(99) %}{{ d.get(s) }}{{ d[s] }}{% endfor %}",
        large + "{% for i in range(9999) %}{{ ('%c' * 300) | length }}{{ strftime_now('%c' * 300) | length }}"
                "{% endfor %}",
        large + "{{ ('a ' * 900000).split() | length }}",
        large + "{{ ('a' * 900000).swapcase() | length }}"}) {
    EXPECT_NE(refusal(source, limits).find("many steps"), std::string::npos) << source;
  }
  // What a joiner gives is one text, however often it is asked for.
  EXPECT_EQ(render("{% set j = joiner('a' * 9000000) %}{{ j() }}{% set l = [j(), j(), j(), j(), j()] %}"
                   "{{ l[4] | length }}"),
            "9000000");
  // What is long but no more than that, goes.
  EXPECT_EQ(render(large + "{{ s.find(t) }} {{ s.count('aa') }} {{ s.rfind('aa') }}"), "-1 1000000 1999998");
}

TEST(ChatTemplate, NamesAndTemplatesHaveALength) {
  const std::string name(257, 'a');
  EXPECT_NE(refusal("{{ " + name + " }}").find("a name has 257 bytes"), std::string::npos);
  EXPECT_NE(
      refusal("{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**{'" + name + "': 1}) }}").find("keywords"),
      std::string::npos);
  EXPECT_NE(refusal(std::string((1 << 20) + 1, 'a')).find("at most 1048576 are read"), std::string::npos);
}

// As Python and Jinja2 have it.
TEST(ChatTemplate, TextIsCutAtCharacters) {
  EXPECT_EQ(render("{{ 'äöxüä'.strip('äö') }} {{ 'ab'.lstrip('b') }} {{ '\u2003 a\u00a0'.strip() }}"),
            "xü ab a");
  EXPECT_EQ(render("{{ ('ä' * 70 ~ 'x' ~ 'ä' * 3).strip('bcdefghijklmnopqrstuvwxyz' * 3 ~ 'ä') }}"), "");
  EXPECT_EQ(
      render("{{ 'aßc€e'.find('e', -2) }} {{ 'aßc€e'[3] }} {{ 'aßc€e'[-4] }} {{ 'ßß€'.count('ß', 1, 3) }}"),
      "4 € ß 1");
  EXPECT_EQ(render("{{ 'ää öö üü' | truncate(6, false, '…', 0) }} {{ 'ääää' | truncate(3, true, '.', 0) }}"),
            "ää… ää.");
  EXPECT_EQ(render("{{ 'ΑΣ ΣΑ ΑΣΑ' | lower }} {{ 'a\tb\n\tc'.expandtabs(4) }}"), "ας σα ασα a   b\n    c");
  EXPECT_EQ(render("{{ 'aa bb-cc dddddd' | wordwrap(4) }}"), "aa\nbb-\ncc d\ndddd\nd");
}

TEST(ChatTemplate, ChainsAreAsDeepAsBrackets) {
  const auto chain = [](const std::string& link) {
    std::string source = "{{ x";
    for (int i = 0; i < 50'000; ++i) source += link;
    return source + " }}";
  };
  for (const char* link : {"+1", ".b", "|upper", " and x", " or x", "~x", "*1", "**1", "[0]", "()",
                           " is defined", " if x else x", " if x"}) {
    EXPECT_NE(refusal(chain(link)).find("nests too deep"), std::string::npos) << link;
  }
  std::string sum = "{{ 0";
  for (int i = 0; i < 300; ++i) sum += "+1";
  EXPECT_EQ(render(sum + " }}"), "300");
}

TEST(ChatTemplate, TheSmallestIntegerHasNoOpposite) {
  const std::string smallest = "(-9223372036854775807 - 1)";
  EXPECT_EQ(render("{{ " + smallest + " is divisibleby(-1) }}"), "True");
  EXPECT_NE(refusal("{{ " + smallest + " // -1 }}").find("too large"), std::string::npos);
  EXPECT_EQ(render("{{ " + smallest + " % -1 }}"), "0");
  EXPECT_NE(refusal("{{ " + smallest + " | abs }}").find("too large"), std::string::npos);
  EXPECT_NE(refusal("{{ 1 is divisibleby(0) }}").find("division by zero"), std::string::npos);
}

TEST(ChatTemplate, NamespacesInCirclesAreFreed) {  // what the leak checker of a sanitized build would see
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.self = n %}{% set n.list = [n] %}done"), "done");
  EXPECT_EQ(render("{% set n = namespace(p=none) %}{% for i in range(50000) %}{% set m = namespace() %}{% "
                   "set m.p = n.p %}"
                   "{% set n.p = m %}{% endfor %}done"),
            "done");
}

TEST(ChatTemplate, MacrosAndLoopsThatHoldTheirScopesAreFreed) {
  EXPECT_EQ(
      render("{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% set k = m %}{{ k() }}{% endfor %}"),
      "12");
  EXPECT_EQ(
      render(
          "{% set n = namespace(x=1) %}{% for i in range(20000) %}{% for j in [n.x, 1] %}{% set n.x = [loop] "
          "%}{% endfor %}{% endfor %}done"),
      "done");
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.c = cycler(n) %}{{ n.c.next() is defined }}"), "True");
}

TEST(ChatTemplate, NumbersAreRoundedAndDividedAsInPython) {
  EXPECT_EQ(render("{{ [1234|round(-2), 1250|round(-2), 1350|round(-2), -35|round(-1), 3|round(-30)] }}"),
            "[1200, 1200, 1400, -40, 0]");
  EXPECT_EQ(render("{{ [1234.5|round(-2), 1234|round(-2, 'floor'), 9007199254740993|round(-1)] }}"),
            "[1200.0, 1200.0, 9007199254740990]");
  EXPECT_NE(refusal("{{ 9223372036854775807|round(-1) }}").find("an integer is too large"),
            std::string::npos);
  EXPECT_EQ(render("{{ [1.0 // 0.1, -1.0 // 0.1, 1 // 0.1, 7.5 // 2, 0.0 // -1.0, 349007975410372.3 // 0.1] "
                   "}}"),
            "[9.0, -10.0, 9.0, 3.0, -0.0, 3490079754103722.0]");
}

TEST(ChatTemplate, PprintWritesWhatPythonHasOnOneLine) {
  const std::string word(100, 'a');
  EXPECT_EQ(render("{{ ('a' * 100)|pprint }}"), "'" + word + "'");
  for (const char* source : {"{{ ['a' * 100]|pprint }}", "{{ ('a b' * 50)|pprint }}"})
    EXPECT_NE(refusal(source).find("more than 80 characters is not supported"), std::string::npos) << source;
}

TEST(ChatTemplate, WhatHasNoMeaningHereIsRefusedByName) {
  EXPECT_NE(refusal("{{ lipsum() }}").find("lipsum() writes random text"), std::string::npos);
  EXPECT_NE(refusal("{{ {[1]: 2} }}").find("a list cannot be the key of a mapping"), std::string::npos);
  EXPECT_NE(refusal("{{ dict(a=1, **{'a': 2}) }}").find("\"a\" is given twice"), std::string::npos);
  EXPECT_NE(refusal("{% call 1 %}{% endcall %}").find("needs the call of a macro"), std::string::npos);
}

TEST(ChatTemplate, NothingOfTheInputCanBeChanged) {
  ChatInput input;
  input.messages = messages_json({{"user", "hi"}});
  EXPECT_THROW(render("{% set messages[0].role = 'x' %}", input), TemplateError);
  EXPECT_THROW(render("{{ messages.append(1) }}", input), TemplateError);
  EXPECT_THROW(render("{{ messages[0].update({'a': 1}) }}", input), TemplateError);
}

TEST(ChatTemplate, MessagesAreWrittenAsJson) {
  EXPECT_EQ(messages_json({}), "[]");
  EXPECT_EQ(messages_json({{"user", "a \"b\"\n"}, {"assistant", ""}}),
            R"([{"role": "user", "content": "a \"b\"\n"}, {"role": "assistant", "content": ""}])");
}

TEST(ChatTemplate, BrokenInputIsRefused) {
  ChatInput input;
  input.messages = "[{";
  EXPECT_THROW(render("x", input), FormatError);
  input.messages = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THROW(render("x", input), FormatError);
  EXPECT_THROW(ChatTemplate("\xFF"), TemplateError);
}

}  // namespace
}  // namespace ingot::text
