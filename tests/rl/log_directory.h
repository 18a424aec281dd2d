#pragma once

#include <cstdint>
#include <string>

#include "tests/mahjong/games.h"
#include "tests/support/temporary_directory.h"

namespace ingot::test {

/// A directory with logs of eight single rounds of simple players, to learn from in a blink.
class LogDirectory {
 public:
  LogDirectory() {
    mahjong::Rules rules;
    rules.length = mahjong::GameLength::SingleRound;
    for (std::uint64_t i = 0; i < 8; ++i)
      mahjong::write_log(directory_.at(std::to_string(i) + ".json"),
                         mahjong::to_mjai(mahjong::simple_game(i, rules)));
  }
  const std::string& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace ingot::test
