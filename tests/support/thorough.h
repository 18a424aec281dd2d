#pragma once

#include <cstdlib>
#include <vector>

namespace ingot::test {

/// Whether tests that an emulated GPU takes minutes for go through all that they could, as `./dev check
/// --deep` has them do.
inline bool thorough() { return std::getenv("INGOT_THOROUGH") != nullptr; }

/// `all` where tests are thorough, else the first `few` of them.
template <class T>
std::vector<T> first_or_all(std::vector<T> all, std::size_t few) {
  if (!thorough()) all.resize(few);
  return all;
}

}  // namespace ingot::test
