#include "ingot/data/chat_encoder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/data/encoder_parts.h"
#include "ingot/data/record.h"
#include "ingot/text/chat_template.h"
#include "ingot/text/token_spelling.h"

namespace ingot::data {
namespace {

using text::RenderedChat;
using Span = RenderedChat::Span;

// Stands for a message. No content begins or ends with its first or last byte.
constexpr std::string_view kMarker = "\x7Fmessage\x7F";
// Templates put little between a content and what ends its turn, in tokens, or before it, in bytes.
constexpr std::size_t kNearTokens = 3, kNearBytes = 16;

struct TokenRange {
  std::size_t begin, end;
};

// Where bytes of a text are in its tokens.
class TokenLocator {
 public:
  TokenLocator(const text::Tokenizer& tokenizer, const text::TokenSpelling& spelling, std::string_view text,
               const std::vector<std::int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), ids_(ids), ends_(spelling.ends(text, ids)) {}

  /// The tokens that hold bytes of a span.
  TokenRange tokens(Span span) const {
    if (span.begin == span.end) return {0, 0};
    if (!ends_.empty()) {
      const auto begin = std::ranges::upper_bound(ends_, span.begin);
      const auto end = std::ranges::lower_bound(ends_, span.end);
      const auto index = [&](auto it) { return static_cast<std::size_t>(it - ends_.begin()); };
      return {index(begin), std::min(index(end) + 1, ids_.size())};
    }
    const std::size_t begin = shared_with_prefix(span.begin).count;
    const Shared end = shared_with_prefix(span.end);
    return {begin, std::min(end.count + (end.whole ? 0 : 1), ids_.size())};
  }

 private:
  struct Shared {
    std::size_t count;  // tokens that the text begins with, and its prefix too
    bool whole;         // these are all of the prefix
  };
  Shared shared_with_prefix(std::size_t bytes) const {
    const std::vector<std::int32_t> ids = tokenizer_.encode(text_.substr(0, bytes), kNoSpecialTokens);
    const auto at = std::ranges::mismatch(ids, ids_).in1;
    return {static_cast<std::size_t>(at - ids.begin()), at == ids.end()};
  }

  const text::Tokenizer& tokenizer_;
  std::string_view text_;
  const std::vector<std::int32_t>& ids_;
  std::vector<std::size_t> ends_;
};

class ChatEncoder {
 public:
  ChatEncoder(const text::Tokenizer& tokenizer, const std::string& source, ChatFields fields,
              ChatTraining training)
      : tokenizer_(tokenizer),
        spelling_(tokenizer),
        template_(source),
        fields_(std::move(fields)),
        training_(std::move(training)),
        assistant_only_(!training_.train_on_inputs &&
                        training_.roles_to_train == std::vector<std::string>{"assistant"}) {
    const text::TokenizerConfig& config = tokenizer.config();
    for (const std::string& token : {config.eos_token, config.eot_token, config.eom_token})
      if (const auto id = tokenizer.token_to_id(token); !token.empty() && id) terminators_.insert(*id);
    for (const std::string& token : training_.eot_tokens) {
      const auto id = tokenizer.token_to_id(token);
      INGOT_CHECK(id.has_value(),
                  InvalidConfig("eot_tokens", fmt::format("'{}' is not a token of the tokenizer", token)));
      terminators_.insert(*id);
    }
  }

  EncodedSample encode(const Record& record, const RecordLocation& location) const {
    const Chat chat = read_chat(record, fields_, location);
    if (std::ranges::none_of(chat.turns, [&](const ChatTurn& turn) { return is_trained(turn); }))
      refuse_chat(chat, location);
    try {
      return encode(chat);
    } catch (const text::TemplateError& error) {
      location.fail(fmt::format("the chat template fails: {}", error.what()));
    }
  }

  const ChatFields& fields() const { return fields_; }

 private:
  bool is_trained(const ChatTurn& turn) const {
    if (turn.train) return *turn.train;
    return training_.train_on_inputs ||
           std::ranges::find(training_.roles_to_train, turn.role) != training_.roles_to_train.end();
  }

  [[noreturn]] void refuse_chat(const Chat& chat, const RecordLocation& location) const {
    std::vector<std::string> roles;
    for (const ChatTurn& turn : chat.turns) roles.push_back(turn.role);
    location.fail(
        fmt::format("this chat has no turn to learn: its roles are {}, and those that are trained are {} "
                    "(roles_to_train; "
                    "'roles' maps the words of the data)",
                    fmt::join(roles, ", "), fmt::join(training_.roles_to_train, ", ")));
  }

  RenderedChat render(const std::string& messages, const std::string& tools, bool prompt = false) const {
    const text::TokenizerConfig& config = tokenizer_.config();
    return template_.render_marked({.messages = messages,
                                    .tools = tools,
                                    .variables = training_.variables,
                                    .add_generation_prompt = prompt,
                                    .bos_token = config.bos_token,
                                    .eos_token = config.eos_token,
                                    .unk_token = config.unk_token,
                                    .pad_token = config.pad_token});
  }

  EncodedSample encode(const Chat& chat) const {
    const RenderedChat rendered = render(chat.messages(), chat.tools);
    EncodedSample sample;
    sample.tokens = tokenizer_.encode(rendered.text, kNoSpecialTokens);
    sample.trained.resize(sample.tokens.size());
    const TokenLocator locator(tokenizer_, spelling_, rendered.text, sample.tokens);
    const bool told =
        std::ranges::any_of(chat.turns, [](const ChatTurn& turn) { return turn.train.has_value(); });
    if (assistant_only_ && !told && !rendered.generated.empty()) {
      for (const Span& span : rendered.generated) learn_block(sample, locator.tokens(span));
    } else {
      for (std::size_t i = 0; i < chat.turns.size(); ++i)
        if (is_trained(chat.turns[i])) learn_turn(sample, locator.tokens(turn_span(chat, i, rendered.text)));
    }
    learn_terminators(sample);
    return sample;
  }

  static void learn(EncodedSample& sample, TokenRange range, bool value = true) {
    std::fill(sample.trained.begin() + static_cast<std::ptrdiff_t>(range.begin),
              sample.trained.begin() + static_cast<std::ptrdiff_t>(range.end), value);
  }

  bool is_terminator(std::int32_t id) const { return terminators_.contains(id); }

  // What ends the turn whose content ends at token `end`: the number of tokens when there is nothing such.
  std::size_t terminator_after(const EncodedSample& sample, std::size_t end) const {
    const std::size_t last = std::min(end + kNearTokens, sample.tokens.size());
    for (std::size_t i = end; i < last; ++i)
      if (is_terminator(sample.tokens[i])) return i;
    if (end < sample.tokens.size() && tokenizer_.is_special(sample.tokens[end])) return end;
    return sample.tokens.size();
  }

  // As the block says, but where train_on_eos says otherwise.
  void learn_block(EncodedSample& sample, TokenRange range) const {
    learn(sample, range);
    std::size_t end = range.end;
    while (end > range.begin && !is_terminator(sample.tokens[end - 1]) && range.end - end < kNearTokens)
      --end;
    const bool inside = end > range.begin && is_terminator(sample.tokens[end - 1]);
    const std::size_t at = inside ? end - 1 : terminator_after(sample, range.end);
    learn_terminator(sample, at, inside);
  }

  void learn_turn(EncodedSample& sample, TokenRange range) const {
    learn(sample, range);
    learn_terminator(sample, terminator_after(sample, range.end), true);
  }

  void learn_terminator(EncodedSample& sample, std::size_t at, bool usual) const {
    if (at == sample.tokens.size()) {
      sample.unterminated = true;
      return;
    }
    const TrainOnEos which = training_.train_on_eos;
    sample.trained[at] = which == TrainOnEos::automatic ? usual : which == TrainOnEos::turn;
    if (!sample.trained[at] && which == TrainOnEos::automatic) sample.unterminated = true;
  }

  void learn_terminators(EncodedSample& sample) const {
    if (training_.train_on_eos == TrainOnEos::all)
      for (std::size_t i = 0; i < sample.tokens.size(); ++i)
        if (is_terminator(sample.tokens[i])) sample.trained[i] = true;
    if (training_.train_on_eos != TrainOnEos::last) return;
    for (std::size_t i = sample.tokens.size(); i-- > 0;)
      if (is_terminator(sample.tokens[i])) {
        sample.trained[i] = true;
        return;
      }
  }

  Span turn_span(const Chat& chat, std::size_t i, const std::string& text) const {
    if (const auto span = span_by_marker(chat, i, text)) return *span;
    if (const auto span = span_by_prefix(chat, i, text)) return *span;
    throw text::TemplateError(
        0,
        fmt::format("message {} ({}) cannot be found in the chat's text, which the template changes with the "
                    "messages behind it; a template with {{% generation %}} blocks says what is learned",
                    i + 1, chat.turns[i].role));
  }

  // What differs in the text when another message stands instead of this one.
  std::optional<Span> span_by_marker(Chat chat, std::size_t i, const std::string& text) const {
    chat.turns[i].json =
        dump_json(nlohmann::ordered_json{{"role", chat.turns[i].role}, {"content", kMarker}});
    std::string marked;
    try {
      marked = render(chat.messages(), chat.tools).text;
    } catch (const text::TemplateError&) {  // it wants the tool calls that are gone, for example
      return std::nullopt;
    }
    const std::size_t at = marked.find(kMarker);
    if (at == marked.npos) return std::nullopt;
    const std::size_t behind = marked.size() - at - kMarker.size();
    const auto same = [](auto first, auto last, auto other, auto other_last) {
      return static_cast<std::size_t>(std::mismatch(first, last, other, other_last).first - first);
    };
    const std::string_view text_view = text, marked_view = marked;
    const std::size_t before =
        same(text_view.begin(), text_view.end(), marked_view.begin(), marked_view.end());
    const std::string_view tail = text_view.substr(before),
                           marked_tail = marked_view.substr(std::min(before, marked.size()));
    const std::size_t after = same(tail.rbegin(), tail.rend(), marked_tail.rbegin(), marked_tail.rend());
    if (before > at || at - before > kNearBytes || behind < after || behind - after > kNearBytes)
      return std::nullopt;
    return Span{before, text.size() - after};
  }

  // What is added to the text of the messages before, up to what ends the turn.
  std::optional<Span> span_by_prefix(const Chat& chat, std::size_t i, const std::string& text) const {
    try {
      const std::string before =
          i == 0 ? "" : render(chat.messages(i), chat.tools, chat.turns[i].role == "assistant").text;
      const std::string with = render(chat.messages(i + 1), chat.tools).text;
      if (!with.starts_with(before) || !text.starts_with(with)) return std::nullopt;
      std::string_view added = std::string_view(with).substr(before.size());
      for (const std::int32_t id : terminators_) {
        const std::size_t at = added.rfind(tokenizer_.id_to_token(id));
        if (at != added.npos && added.size() - at <= kNearBytes + tokenizer_.id_to_token(id).size())
          added = added.substr(0, at);
      }
      return Span{before.size(), before.size() + added.size()};
    } catch (const text::TemplateError&) {
      return std::nullopt;
    }
  }

  text::Tokenizer tokenizer_;
  text::TokenSpelling spelling_;
  text::ChatTemplate template_;
  ChatFields fields_;
  ChatTraining training_;
  bool assistant_only_;
  std::set<std::int32_t> terminators_;
};

}  // namespace

bool EncodedSample::anything_trained() const {
  // The first token is not a target.
  return trained.size() > 1 && std::find(trained.begin() + 1, trained.end(), true) != trained.end();
}

std::string_view name(TrainOnEos which) {
  constexpr std::array<std::string_view, 5> kNames{"automatic", "all", "turn", "last", "none"};
  return kNames[static_cast<std::size_t>(which)];
}

TrainOnEos parse_train_on_eos(std::string_view text, const std::string& key) {
  for (const TrainOnEos which :
       {TrainOnEos::automatic, TrainOnEos::all, TrainOnEos::turn, TrainOnEos::last, TrainOnEos::none})
    if (text == name(which)) return which;
  throw InvalidConfig(key, fmt::format("must be one of all, turn, last, none, got '{}'", text));
}

SampleEncoder chat_encoder(const text::Tokenizer& tokenizer, const std::string& chat_template,
                           const ChatFields& fields, const ChatTraining& training) {
  INGOT_CHECK(
      !chat_template.empty(),
      InvalidConfig("chat_template",
                    "the tokenizer has none; name one (chatml, llama3, gemma, phi_3, mistral), or write it "
                    "in chat_template_jinja"));
  const auto encoder = std::make_shared<const ChatEncoder>(tokenizer, chat_template, fields, training);
  const auto join = [](const auto& map) {
    std::string out;
    for (const auto& [from, to] : map) out += fmt::format("{}={};", from, to);
    return out;
  };
  const std::string options = fmt::format(
      "{}\n{}\n{}\n{}\n{} {} {} {}\n{}\n{} {}\n{}\n{}", chat_template, fields.messages,
      join(fields.properties), join(fields.roles), fields.tools, fields.system, fields.training,
      fields.drop_system_message, fmt::join(training.roles_to_train, ","), training.train_on_inputs,
      name(training.train_on_eos), fmt::join(training.eot_tokens, ","), training.variables);
  return {.encode = [encoder](const Record& record,
                              const RecordLocation& location) { return encoder->encode(record, location); },
          .is_record = [encoder](const Record& record) { return encoder->fields().found_in(record); },
          .show = token_shower(tokenizer),
          .vocab_size = tokenizer.vocab_size(),
          .identity = encoder_identity(tokenizer, "chat 1", options)};
}

SampleEncoder instruction_encoder(const text::Tokenizer& tokenizer, const InstructionFormat& format,
                                  bool train_on_inputs) {
  const auto encode = [tokenizer, format, train_on_inputs](const Record& record,
                                                           const RecordLocation& location) {
    const PromptAnswer texts = read_instruction(record, format, location);
    EncodedSample sample;
    sample.tokens = encode_prompt(tokenizer, texts.prompt);
    sample.trained.assign(sample.tokens.size(), train_on_inputs);
    const std::vector<std::int32_t> answer = tokenizer.encode(texts.answer, kNoSpecialTokens);
    sample.tokens.insert(sample.tokens.end(), answer.begin(), answer.end());
    if (tokenizer.eos_id()) sample.tokens.push_back(*tokenizer.eos_id());
    sample.unterminated = !tokenizer.eos_id().has_value();
    sample.trained.resize(sample.tokens.size(), true);
    return sample;
  };
  const std::string options = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", format.field_instruction, format.field_input,
      format.field_output, format.field_system, format.system_prompt, format.system_prompt_without_input,
      format.system_format, format.format, format.no_input_format, train_on_inputs);
  return {.encode = encode,
          .is_record = [format](const Record& record) { return format.found_in(record); },
          .show = token_shower(tokenizer),
          .vocab_size = tokenizer.vocab_size(),
          .identity = encoder_identity(tokenizer, "instruction 1", options)};
}

}  // namespace ingot::data
