#include "ingot/rl/game_share.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/dist/communicator.h"

namespace ingot {

GameShare game_share(std::size_t games, const dist::Communicator& ranks, const std::string& key) {
  const auto size = static_cast<std::size_t>(ranks.size()), rank = static_cast<std::size_t>(ranks.rank());
  INGOT_CHECK(games >= size,
              InvalidConfig(key, fmt::format("is {}, fewer than the {} ranks that play; give each a game, or "
                                             "start fewer ranks",
                                             games, size)));
  const std::size_t first = games * rank / size;
  return {.first = first, .count = games * (rank + 1) / size - first, .all = games};
}

void add_game_arrays(GameArrays& arrays, const std::string& name, std::span<const std::byte> bytes,
                     std::span<const std::size_t> sizes) {
  std::size_t each = 0, at = 0;
  for (const std::size_t size : sizes) each += size;
  const std::size_t count = each == 0 ? 0 : bytes.size() / each;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::span<const std::byte> array = bytes.subspan(at, count * sizes[i]);
    arrays[fmt::format("{}.{}", name, i)].assign(array.begin(), array.end());
    at += array.size();
  }
}

std::vector<std::byte> join_game_arrays(const GameArrays& arrays, const std::string& name,
                                        std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::byte>& array = arrays.at(fmt::format("{}.{}", name, i));
    bytes.insert(bytes.end(), array.begin(), array.end());
  }
  return bytes;
}

std::map<std::string, Tensor> named_by_share(const GameArrays& arrays, const GameShare& share) {
  std::map<std::string, Tensor> named;
  for (const auto& [name, bytes] : arrays)
    named[fmt::format("{:012}.{}", share.first, name)] =
        Tensor::from_bytes(bytes, {std::ssize(bytes)}, DType::u8);
  return named;
}

GameArrays of_all_shares(const std::map<std::string, Tensor>& named) {
  GameArrays all;
  for (const auto& [name, tensor] : named) {  // in the order of their first games
    const std::vector<std::uint8_t> values = tensor.to_vector<std::uint8_t>();
    const auto bytes = std::as_bytes(std::span(values));
    std::vector<std::byte>& array = all[name.substr(name.find('.') + 1)];
    array.insert(array.end(), bytes.begin(), bytes.end());
  }
  return all;
}

GameArrays of_share(const GameArrays& all, const GameShare& share, const std::string& place) {
  GameArrays part;
  for (const auto& [name, bytes] : all) {
    INGOT_CHECK(bytes.size() % share.all == 0,
                FormatError(place, -1, name,
                            fmt::format("has {} bytes, which {} games do not share evenly", bytes.size(),
                                        share.all)));
    const std::size_t each = bytes.size() / share.all;
    const auto slice = std::span(bytes).subspan(share.first * each, share.count * each);
    part[name].assign(slice.begin(), slice.end());
  }
  return part;
}

}  // namespace ingot
