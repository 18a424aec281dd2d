#include <memory>

#include <fmt/core.h>
#include <zlib.h>

#include "ingot/mahjong/log.h"
#include "ingot/mahjong/policy.h"

namespace ingot::mahjong {

std::string read_maybe_gzip(const std::string& path, std::size_t max_bytes) {
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (!file) throw IoError(path, "cannot be opened");
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const int got = gzread(file.get(), buffer, sizeof buffer);
    int code = Z_OK;
    const char* problem = gzerror(file.get(), &code);
    // Z_BUF_ERROR: the compressed stream stops in its middle.
    if (got < 0 || code == Z_BUF_ERROR) throw FormatError(path, -1, "gzip", problem);
    if (got == 0) return content;
    if (content.size() + static_cast<std::size_t>(got) > max_bytes)
      throw FormatError(path, -1, "gzip",
                        fmt::format("holds more than {} bytes, the limit for one log", max_bytes));
    content.append(buffer, static_cast<std::size_t>(got));
  }
}

GameLog parse_log(std::string_view content, const std::string& source, const Rules& otherwise) {
  const std::size_t first = content.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) throw FormatError(source, 0, "log", "is empty");
  const std::string_view body = content.substr(first);
  if (body[0] == '<') return read_mjlog(body, source);
  const std::string_view line = body.substr(0, body.find('\n'));
  if (line.find("\"type\"") != std::string_view::npos) return read_mjai(body, source, otherwise);
  return read_tenhou_json(body, source, otherwise);
}

GameLog read_log(const std::string& path, const Rules& otherwise, std::size_t max_bytes) {
  return parse_log(read_maybe_gzip(path, max_bytes), path, otherwise);
}

std::size_t stream_examples(const std::vector<std::string>& paths,
                            const std::function<void(const TrainingExample&)>& visit,
                            const std::function<void(const Error&)>& on_error, const Rules& otherwise) {
  std::size_t used = 0;
  for (const std::string& path : paths) {
    int round = -1;
    std::uint8_t last_round = 255;
    std::uint16_t last_honba = 0;
    try {
      replay(read_log(path, otherwise), [&](const Table& table, int player, const Action& action) {
        if (table.pub.round != last_round || table.pub.honba != last_honba) {
          ++round;
          last_round = table.pub.round;
          last_honba = table.pub.honba;
        }
        const ActionList legal = legal_actions(table, player);
        if (legal.size() < 2) return;
        visit({observe(table, player), action, policy_mask(legal), policy_index(action), player, round});
      });
      ++used;
    } catch (const Error& error) {
      on_error(error);
    }
  }
  return used;
}

}  // namespace ingot::mahjong
