#include "ingot/text/post_processor.h"

#include <fmt/format.h>

#include "ingot/text/json_view.h"

namespace ingot::text {

namespace {

using Step = PostProcessor::Step;

std::int32_t parse_id(const JsonView& value) {
  const std::int64_t id = value.integer();
  if (id < 0 || id > INT32_MAX) value.fail(fmt::format("the id {} is out of range", id));
  return static_cast<std::int32_t>(id);
}

/// ["[CLS]", 101]
Step parse_token(const JsonView& value, std::int32_t type_id) {
  const auto items = value.items();
  if (items.size() != 2) value.fail(fmt::format("expected a token and its id, found {} items", items.size()));
  return {Step::Kind::special, {parse_id(items[1])}, type_id};
}

std::vector<Step> parse_template(const JsonView& pieces, const JsonView& special_tokens) {
  constexpr std::size_t kMostPieces = 4096, kMostIds = 65536;  // of any text's ids
  std::vector<Step> steps;
  std::size_t ids = 0;
  for (const JsonView& piece : pieces.items()) {
    if (steps.size() == kMostPieces) pieces.fail(fmt::format("has more than {} pieces", kMostPieces));
    if (piece.has("Sequence")) {
      const JsonView sequence = piece.at("Sequence");
      const std::string id = sequence.string("id");
      if (id != "A" && id != "B")
        sequence.fail(fmt::format("expected the sequence A or B, found \"{}\"", id));
      steps.push_back(
          {id == "A" ? Step::Kind::first : Step::Kind::second, {}, parse_id(sequence.at("type_id"))});
      continue;
    }
    const JsonView token = piece.at("SpecialToken");
    const std::string name = token.string("id");
    if (!special_tokens.has(name)) token.fail(fmt::format("\"{}\" is not among special_tokens", name));
    Step step{Step::Kind::special, {}, parse_id(token.at("type_id"))};
    for (const JsonView& id : special_tokens.at(name).at("ids").items()) step.ids.push_back(parse_id(id));
    if ((ids += step.ids.size()) > kMostIds) pieces.fail(fmt::format("adds more than {} tokens", kMostIds));
    steps.push_back(std::move(step));
  }
  return steps;
}

const Step kFirst{Step::Kind::first, {}, 0}, kSecond{Step::Kind::second, {}, 1};

}  // namespace

PostProcessor plain_post_processor() { return PostProcessor({kFirst}, {kFirst, kSecond}); }

void PostProcessor::apply(std::vector<std::int32_t>& ids) const {
  // Nearly always: some ids in front, some behind.
  std::vector<std::int32_t> before, after;
  std::size_t sequences = 0;
  for (const Step& step : single_) {
    if (step.kind != Step::Kind::special) ++sequences;
    auto& side = sequences == 0 ? before : after;
    side.insert(side.end(), step.ids.begin(), step.ids.end());
  }
  if (sequences != 1) {
    ids = apply(ids, nullptr, true).ids;
    return;
  }
  ids.insert(ids.begin(), before.begin(), before.end());
  ids.insert(ids.end(), after.begin(), after.end());
}

Encoding PostProcessor::apply(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>* second,
                              bool add_special_tokens) const {
  Encoding out;
  for (const Step& step : second != nullptr ? pair_ : single_) {
    if (step.kind == Step::Kind::special && !add_special_tokens) continue;
    const auto& ids = step.kind == Step::Kind::special                      ? step.ids
                      : step.kind == Step::Kind::first || second == nullptr ? first
                                                                            : *second;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.type_ids.resize(out.ids.size(), step.type_id);
  }
  return out;
}

std::unique_ptr<PostProcessor> make_post_processor(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "ByteLevel") return nullptr;  // moves offsets, which Ingot does not report
  if (type == "TemplateProcessing") {
    const JsonView special = config.at("special_tokens");
    return std::make_unique<PostProcessor>(parse_template(config.at("single"), special),
                                           parse_template(config.at("pair"), special));
  }
  if (type == "BertProcessing") {
    const Step cls = parse_token(config.at("cls"), 0), sep = parse_token(config.at("sep"), 0);
    Step sep_second = sep;
    sep_second.type_id = 1;
    return std::make_unique<PostProcessor>(std::vector{cls, kFirst, sep},
                                           std::vector{cls, kFirst, sep, kSecond, sep_second});
  }
  if (type == "RobertaProcessing") {
    const Step cls = parse_token(config.at("cls"), 0), sep = parse_token(config.at("sep"), 0);
    Step second = kSecond;
    second.type_id = 0;
    return std::make_unique<PostProcessor>(std::vector{cls, kFirst, sep},
                                           std::vector{cls, kFirst, sep, sep, second, sep});
  }
  if (type == "Sequence") {
    std::unique_ptr<PostProcessor> found;
    for (const JsonView& item : config.at("processors").items()) {
      auto stage = make_post_processor(item);
      if (stage == nullptr) continue;
      if (found != nullptr) item.fail("a second stage that adds tokens is not supported");
      found = std::move(stage);
    }
    return found;
  }
  config.fail(fmt::format("unknown post-processor \"{}\"", type));
}

}  // namespace ingot::text
