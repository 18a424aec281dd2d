// Runs a tokenizer over JSON lines, for the scripts in tools/ that compare Ingot with other libraries.
//   tokenizer_probe encode TOKENIZER [--no-special] < lines of JSON strings  > lines of [ids]
//   tokenizer_probe decode TOKENIZER [--skip]       < lines of [ids]         > lines of JSON strings
//   tokenizer_probe train OUT VOCAB_SIZE TEXT_FILE
//   tokenizer_probe time TOKENIZER TEXTS             > seconds to load, seconds to encode, ids
// TEXTS are divided by zero bytes.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/text/bpe_trainer.h"
#include "ingot/text/detokenize_stream.h"
#include "ingot/text/tokenizer.h"

namespace {

using ingot::text::Tokenizer;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Tokenizer load(const std::string& path) {
  return std::filesystem::is_directory(path) ? Tokenizer::from_directory(path) : Tokenizer::from_file(path);
}

int run(const std::vector<std::string>& args) {
  const std::string& verb = args.at(0);
  if (verb == "train") {
    ingot::text::BpeTrainerConfig config;
    config.vocab_size = std::stoi(args.at(2));
    config.min_frequency = 0;
    const std::string text = ingot::read_file(args.at(3));
    const auto start = Clock::now();
    const Tokenizer trained = ingot::text::train_bpe(config, text);
    fmt::print("{:.4f}\n", seconds_since(start));
    trained.save_directory(args.at(1));
    return 0;
  }
  const auto start = Clock::now();
  const Tokenizer tokenizer = load(args.at(1));
  const double loaded = seconds_since(start);
  const bool flag = args.size() > 2 && args[2].starts_with("--");
  if (verb == "time") {
    const std::string texts = ingot::read_file(args.at(2));
    const auto encode_start = Clock::now();
    std::size_t ids = 0;
    for (std::size_t begin = 0; begin < texts.size();) {
      const std::size_t end = std::min(texts.find('\0', begin), texts.size());
      ids +=
          tokenizer.encode(std::string_view(texts).substr(begin, end - begin), {.add_special_tokens = false})
              .size();
      begin = end + 1;
    }
    fmt::print("{:.5f} {:.5f} {}\n", loaded, seconds_since(encode_start), ids);
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const json input = json::parse(line);
    if (verb == "encode") {
      std::cout << json(tokenizer.encode(input.get<std::string>(), {.add_special_tokens = !flag})).dump()
                << '\n';
    } else {
      std::cout << json(tokenizer.decode(input.get<std::vector<std::int32_t>>(), flag)).dump() << '\n';
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << "tokenizer_probe: " << e.what() << '\n';
    return 1;
  }
}
