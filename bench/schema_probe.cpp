// Compiles JSON Schemas and follows instances of them token by token, for tools/bench/json_schema_bench.py.
//
// schema_probe MODEL: reads lines of paths of MaskBench files (a schema, and instances with what they are),
// and writes a line of JSON for each: compile_us and masks_us, or error; wrong: instances that were taken for
// the other kind, with the bytes of them that were taken.
//
// schema_probe MODEL --tokenizer OUT: writes the model's tokenizer.json.
#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ingot/grammar/matcher.h"
#include "ingot/models/open_tokenizer.h"

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
namespace grammar = ingot::grammar;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// How many tokens the grammar takes, one more where it may end behind all of them. A mask is made for each,
// as when a model draws.
std::size_t taken(const grammar::GrammarPtr& compiled, const std::vector<std::int32_t>& tokens, Json& times) {
  std::size_t count = 0;
  grammar::Matcher matcher(compiled);
  grammar::TokenMask mask(matcher.vocab_size());
  for (const std::int32_t token : tokens) {
    const auto start = Clock::now();
    matcher.fill(mask);
    times.push_back(microseconds_since(start));
    const bool allowed = mask.has(token);
    if (matcher.accept(token) != allowed) throw std::logic_error("the mask and the matcher disagree");
    if (!allowed) return count;
    ++count;
  }
  return count + (matcher.finished() ? 1 : 0);
}

Json measured(const std::string& path, const grammar::Vocabulary& vocabulary,
              const ingot::text::Tokenizer& tokenizer) {
  const Json file = Json::parse(std::ifstream(path));
  Json result = {{"file", path}};
  const auto start = Clock::now();
  try {
    const grammar::GrammarPtr compiled = grammar::from_json_schema(vocabulary, file.at("schema").dump());
    result["compile_us"] = microseconds_since(start);
    Json times = Json::array(), wrong = Json::array();
    std::size_t index = 0;
    for (const Json& test : file.value("tests", Json::array())) {
      const std::string text = test.at("data").dump(4);
      const auto tokens = tokenizer.encode(text, {.add_special_tokens = false});
      const bool valid = test.at("valid").get<bool>();
      const std::size_t count = taken(compiled, tokens, times);
      const std::string before = tokenizer.decode(std::span(tokens).first(std::min(count, tokens.size())));
      if ((count > tokens.size()) != valid)
        wrong.push_back({{"test", index}, {"valid", valid}, {"bytes", before.size()}});
      ++index;
    }
    result["masks_us"] = std::move(times);
    result["wrong"] = std::move(wrong);
  } catch (const std::exception& error) {
    result["error"] = error.what();
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const ingot::text::Tokenizer tokenizer = ingot::open_tokenizer(args.at(0));
  if (args.size() > 2 && args[1] == "--tokenizer") {
    tokenizer.save(args[2]);
    return 0;
  }
  const grammar::Vocabulary vocabulary(tokenizer);
  for (std::string path; std::getline(std::cin, path);)
    std::cout << measured(path, vocabulary, tokenizer).dump() << std::endl;
  return 0;
}
