#include <cstdio>
#include <exception>

#include "ingot/infer/session.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]), 2;
  try {
    ingot::initialize();
    ingot::infer::Session session({.model = argv[1], .format = "q8_0"});  // a directory, or a .gguf file
    const auto show = [](std::string_view piece) {
      std::printf("%.*s", static_cast<int>(piece.size()), piece.data());
      return std::fflush(stdout) == 0;  // false would end the text
    };
    session.generate(argv[2], session.options({.max_tokens = 64}), show);
    std::printf("\n");
  } catch (const std::exception& error) {  // ingot::Error says what to do
    return std::fprintf(stderr, "error: %s\n", error.what()), 1;
  }
}
