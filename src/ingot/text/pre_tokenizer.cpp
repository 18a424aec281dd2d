#include "ingot/text/pre_tokenizer.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/text/byte_level.h"
#include "ingot/text/json_view.h"
#include "ingot/text/regex.h"
#include "ingot/text/splitting.h"
#include "ingot/text/utf8.h"

namespace ingot::text {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void PieceList::reset(std::string_view text, bool at_start) {
  pieces_.clear();
  kept_.clear();
  if (!text.empty()) pieces_.push_back({text, at_start});
}

void PieceList::transform(FunctionRef<void(const Piece&)> transform) {
  next_.clear();
  for (const Piece& piece : pieces_) transform(piece);
  pieces_.swap(next_);
}

namespace {

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) pattern_ = std::make_unique<Regex>(kGpt2Pattern, "pre_tokenizer");
  }
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      std::string_view text = piece.text;
      if (add_prefix_space_ && text.front() != ' ') text = list.keep(" " + std::string(text));
      if (pattern_ == nullptr) return list.emit(mapped(list, text), piece.at_start);
      std::size_t done = 0;
      pattern_->for_each_match(text, [&](std::size_t begin, std::size_t end) {
        list.emit(mapped(list, text.substr(done, begin - done)), piece.at_start && done == 0);
        list.emit(mapped(list, text.substr(begin, end - begin)), piece.at_start && begin == 0);
        done = end;
      });
      list.emit(mapped(list, text.substr(done)), piece.at_start && done == 0);
    });
  }
  bool leave_bytes() override { return leave_bytes_ = true; }

 private:
  std::string_view mapped(PieceList& list, std::string_view text) const {
    if (leave_bytes_ || text.empty()) return text;
    std::string out;
    append_byte_level(out, text);
    return list.keep(std::move(out));
  }

  std::unique_ptr<Regex> pattern_;
  bool add_prefix_space_;
  bool leave_bytes_ = false;
};

class SplitPattern final : public PreTokenizer {
 public:
  explicit SplitPattern(const JsonView& config)
      : pattern_(compile_pattern(config.at("pattern"))),
        behavior_(parse_behavior(config.at("behavior"))),
        invert_(config.boolean("invert", false)) {}
  void apply(PieceList& list) const override {
    list.transform([&](const Piece& piece) {
      Splitter splitter(list, piece, behavior_, invert_);
      pattern_.for_each_match(piece.text,
                              [&](std::size_t begin, std::size_t end) { splitter.match(begin, end); });
      splitter.finish();
    });
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(const JsonView& config) {
    for (const JsonView& item : config.at("pretokenizers").items())
      stages_.push_back(make_pre_tokenizer(item));
  }
  void apply(PieceList& list) const override {
    for (const auto& stage : stages_) stage->apply(list);
  }
  bool leave_bytes() override { return !stages_.empty() && stages_.back()->leave_bytes(); }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> stages_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "ByteLevel")
    return std::make_unique<ByteLevel>(config.boolean("add_prefix_space", true),
                                       config.boolean("use_regex", true));
  if (type == "Split") return std::make_unique<SplitPattern>(config);
  if (type == "Sequence") return std::make_unique<Sequence>(config);
  config.fail(fmt::format("unknown pre-tokenizer \"{}\"", type));
}

}  // namespace ingot::text
