#include "ingot/text/sentencepiece.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/protobuf_reader.h"
#include "ingot/base/utf8.h"
#include "ingot/text/bpe.h"
#include "ingot/text/charsmap.h"
#include "ingot/text/json_write.h"
#include "ingot/text/unigram.h"

namespace ingot::text {

namespace {

using Proto = SentencePieceModel;

SentencePiece parse_piece(ProtobufReader reader) {
  SentencePiece piece;
  while (reader.next()) {
    if (reader.field() == 1) {
      piece.text = reader.bytes();
      if (!is_valid_utf8(piece.text)) reader.fail("a piece is not UTF-8");
    } else if (reader.field() == 2) {
      piece.score = reader.float32();
      if (!std::isfinite(piece.score))
        reader.fail(fmt::format("the score of \"{}\" is not finite", piece.text));
    } else if (reader.field() == 3) {
      piece.type = reader.varint();
    } else {
      reader.skip();
    }
  }
  return piece;
}

void parse_trainer(ProtobufReader reader, Proto& out) {
  while (reader.next()) {
    if (reader.field() == 3)
      out.kind = reader.varint();
    else if (reader.field() == 35)
      out.byte_fallback = reader.varint() != 0;
    else
      reader.skip();
  }
}

void parse_normalizer(ProtobufReader reader, Proto& out) {
  while (reader.next()) {
    if (reader.field() == 2)
      out.charsmap = reader.bytes();
    else if (reader.field() == 3)
      out.add_dummy_prefix = reader.varint() != 0;
    else if (reader.field() == 4)
      out.remove_extra_whitespaces = reader.varint() != 0;
    else if (reader.field() == 5)
      out.escape_whitespaces = reader.varint() != 0;
    else
      reader.skip();
  }
}

/// SentencePiece merges the two neighbours whose merged piece scores highest; so every way to cut a piece
/// into two is a merge with the rank of its score.
MergeTable merges_of(const Proto& proto, const Vocabulary& vocabulary, const std::string& source) {
  constexpr std::size_t kLongPiece = 256, kMostWork = std::size_t{1} << 31;
  struct Candidate {
    float score;
    Pair pair;
    std::int32_t id;
  };
  std::vector<Candidate> candidates;
  std::size_t work = 0;  // bytes of halves that are looked up
  for (std::int32_t id = 0; id < vocabulary.id_limit(); ++id) {
    const SentencePiece& piece = proto.pieces[static_cast<std::size_t>(id)];
    if (piece.type != SentencePiece::kNormal && piece.type != SentencePiece::kUserDefined) continue;
    const std::string_view text = piece.text;
    work += text.size() * text.size();
    INGOT_CHECK(
        text.size() < kLongPiece || work < kMostWork,
        FormatError(source, -1, fmt::format("pieces[{}]", id),
                    fmt::format("has {} bytes: the pieces are too long to be made by merges", text.size())));
    for (std::size_t i = 0; i < text.size();) {
      i += utf8_length(text[i]);
      if (i >= text.size()) break;
      const Pair pair{vocabulary.find(text.substr(0, i)), vocabulary.find(text.substr(i))};
      if (pair.left >= 0 && pair.right >= 0) candidates.push_back({piece.score, pair, id});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id != b.id ? a.id < b.id : a.pair < b.pair;
  });
  MergeTable merges;
  merges.reserve(candidates.size());
  std::int32_t rank = 0;
  for (const Candidate& c : candidates) merges.find_or_insert(c.pair, {}) = {rank++, c.id};
  return merges;
}

std::string join(const std::vector<std::string>& stages, std::string_view type, std::string_view list) {
  if (stages.empty()) return "null";
  std::string out = fmt::format(R"({{"type":"{}","{}":[)", type, list);
  for (std::size_t i = 0; i < stages.size(); ++i) out += (i > 0 ? "," : "") + stages[i];
  return out + "]}";
}

std::string normalizer_of(const Proto& proto) {
  std::vector<std::string> stages;
  if (!proto.charsmap.empty())
    stages.push_back(fmt::format(R"({{"type":"Precompiled","precompiled_charsmap":"{}"}})",
                                 encode_base64(proto.charsmap)));
  const auto replace = [&](std::string_view kind, std::string_view from, std::string_view to) {
    stages.push_back(fmt::format(R"({{"type":"Replace","pattern":{{"{}":{}}},"content":{}}})", kind,
                                 json_string(from), json_string(to)));
  };
  if (proto.remove_extra_whitespaces) {
    replace("Regex", R"(\A +| +\z)", "");
    replace("Regex", " {2,}", " ");
  }
  const std::string_view space = proto.escape_whitespaces ? "▁" : " ";
  if (proto.add_dummy_prefix) stages.push_back(fmt::format(R"({{"type":"Prepend","prepend":"{}"}})", space));
  if (proto.escape_whitespaces) replace("String", " ", "▁");
  return join(stages, "Sequence", "normalizers");
}

std::string decoder_of(const Proto& proto) {
  std::vector<std::string> stages = {R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})",
                                     R"({"type":"ByteFallback"})", R"({"type":"Fuse"})"};
  if (proto.add_dummy_prefix) stages.emplace_back(R"({"type":"Strip","content":" ","start":1,"stop":0})");
  return join(stages, "Sequence", "decoders");
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& source) {
  Proto out;
  ProtobufReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == 1)
      out.pieces.push_back(parse_piece(reader.message()));
    else if (reader.field() == 2)
      parse_trainer(reader.message(), out);
    else if (reader.field() == 3)
      parse_normalizer(reader.message(), out);
    else
      reader.skip();
  }
  INGOT_CHECK(!out.pieces.empty(),
              FormatError(source, -1, "pieces", "there are none; this is not a SentencePiece model"));
  INGOT_CHECK(out.kind == Proto::kUnigram || out.kind == Proto::kBpe,
              FormatError(source, -1, "trainer_spec.model_type",
                          fmt::format("{} is neither unigram (1) nor BPE (2)", out.kind)));
  return out;
}

TokenizerSpec parse_sentencepiece(std::string_view bytes, const std::string& source) {
  return make_sentencepiece(read_sentencepiece(bytes, source), source);
}

TokenizerSpec make_sentencepiece(const SentencePieceModel& proto, const std::string& source) {
  TokenizerSpec spec;
  spec.source = source;
  Vocabulary vocabulary;
  std::vector<double> scores;
  std::optional<std::int32_t> unk_id;
  vocabulary.reserve(proto.pieces.size(), proto.pieces.size() * 8);
  for (const SentencePiece& piece : proto.pieces) {
    const auto id = static_cast<std::int32_t>(scores.size());
    INGOT_CHECK(vocabulary.add(piece.text, id) == Vocabulary::Added::yes,
                FormatError(source, -1, fmt::format("pieces[{}]", id),
                            fmt::format("\"{}\" is listed twice", piece.text)));
    scores.push_back(static_cast<double>(piece.score));
    if (piece.type == SentencePiece::kUnknown) unk_id = id;
    if (piece.type != SentencePiece::kUnknown && piece.type != SentencePiece::kControl &&
        piece.type != SentencePiece::kUserDefined) {
      continue;
    }
    AddedToken token;
    token.id = id;
    token.content = piece.text;
    token.special = piece.type != SentencePiece::kUserDefined;
    spec.added_tokens.push_back(std::move(token));
  }
  if (vocabulary.find("<s>") >= 0) spec.config.bos_token = "<s>";
  if (vocabulary.find("</s>") >= 0) spec.config.eos_token = "</s>";
  if (unk_id) spec.config.unk_token = vocabulary.token(*unk_id);
  spec.normalizer = normalizer_of(proto);
  spec.decoder = decoder_of(proto);
  if (proto.kind == Proto::kUnigram) {
    spec.model =
        std::make_shared<UnigramModel>(std::move(vocabulary), std::move(scores), unk_id, proto.byte_fallback);
    return spec;
  }
  BpeOptions options;
  if (unk_id) options.unk_token = vocabulary.token(*unk_id);
  options.fuse_unk = true;
  options.byte_fallback = proto.byte_fallback;
  MergeTable merges = merges_of(proto, vocabulary, source);
  spec.model = std::make_shared<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
  return spec;
}

}  // namespace ingot::text
