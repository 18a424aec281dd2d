#include "ingot/infer/chat.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL < questions\n", argv[0]), 2;
  try {
    ingot::initialize();
    ingot::infer::Session session(  // of a directory, or a .gguf file
        {.model = argv[1], .format = "q8_0", .engine = {.prefix_cache = true}});
    ingot::infer::Chat chat(session, session.options({.max_tokens = 512}));
    for (std::string line; std::getline(std::cin, line);) {
      chat.answer(line, [](std::string_view piece) { return bool(std::cout << piece << std::flush); });
      std::cout << "\n";
    }
  } catch (const std::exception& error) {  // ingot::Error says what to do
    return std::fprintf(stderr, "error: %s\n", error.what()), 1;
  }
}
