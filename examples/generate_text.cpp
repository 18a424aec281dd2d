#include <cstdio>
#include <exception>

#include "ingot/infer/engine.h"
#include "ingot/infer/load.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/runtime/initialize.h"
#include "ingot/text/detokenize_stream.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]), 2;
  try {
    ingot::initialize();
    const auto model = ingot::infer::load_model(argv[1], "q8_0");  // a directory, or a .gguf file
    const ingot::text::Tokenizer tokenizer = ingot::open_tokenizer(argv[1]);
    ingot::text::DetokenizeStream words(tokenizer);
    const auto show = [&](std::int32_t id) {
      std::printf("%s", words.push(id).c_str());
      return std::fflush(stdout) == 0;  // false would end the text
    };
    ingot::infer::Engine engine(*model);
    engine.generate({.prompt = tokenizer.encode(argv[2]), .max_tokens = 64, .on_token = show});
    std::printf("%s\n", words.finish().c_str());
  } catch (const std::exception& error) {  // ingot::Error says what to do
    return std::fprintf(stderr, "error: %s\n", error.what()), 1;
  }
}
