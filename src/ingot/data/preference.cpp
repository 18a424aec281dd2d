#include "ingot/data/preference.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/data/encoder_parts.h"
#include "ingot/data/instruction.h"
#include "ingot/data/record.h"
#include "ingot/text/chat_template.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;
using Turns = std::vector<ChatTurn>;

constexpr std::array<std::string_view, 7> kPrompts{"prompt",   "question",      "instruction", "input",
                                                   "messages", "conversations", "conversation"};
constexpr std::array<std::string_view, 2> kChosen{"chosen", "chosen_response"};
constexpr std::array<std::string_view, 2> kRejected{"rejected", "rejected_response"};
constexpr std::array<std::string_view, 2> kCompletion{"completion", "response"};

// The member of a name, or of one of the usual ones; null where it is missing or says nothing.
const Json* member_of(const Json& record, const std::string& name, std::span<const std::string_view> usual) {
  const auto at = [&](std::string_view key) -> const Json* {
    const auto found = record.find(key);
    return found == record.end() || found->is_null() ? nullptr : &*found;
  };
  if (!name.empty()) return at(name);
  for (const std::string_view key : usual)
    if (const Json* found = at(key)) return found;
  return nullptr;
}

std::string members_of(const Json& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_assistant(const ChatTurn& turn) { return turn.role == "assistant"; }

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class PreferenceEncoder {
 public:
  PreferenceEncoder(const text::Tokenizer& tokenizer, const std::string& chat_template,
                    PreferenceFields fields, PreferenceKind kind, std::string variables)
      : tokenizer_(tokenizer), fields_(std::move(fields)), kind_(kind), variables_(std::move(variables)) {
    if (!chat_template.empty()) template_.emplace(chat_template);
  }

  EncodedSample encode(const Record& record, const RecordLocation& location) const {
    return Reader(*this, record.json, location).read();
  }
  std::pair<std::vector<std::int32_t>, std::string> encode_prompt_of(const Record& record,
                                                                     const RecordLocation& location) const {
    return Reader(*this, record.json, location).read_prompt();
  }
  const PreferenceFields& fields() const { return fields_; }
  PreferenceKind kind() const { return kind_; }

 private:
  // One record.
  class Reader {
   public:
    Reader(const PreferenceEncoder& encoder, const Json& record, const RecordLocation& location)
        : encoder_(encoder), fields_(encoder.fields_), record_(record), location_(location) {}

    EncodedSample read() const {
      if (encoder_.kind_ == PreferenceKind::verdict) return read_verdict();
      const Json &chosen = answer("chosen", fields_.chosen, kChosen),
                 &rejected = answer("rejected", fields_.rejected, kRejected);
      if (is_chat() || !chosen.is_string() || !rejected.is_string()) return chat_pair(chosen, rejected);
      return text_pair(chosen.get<std::string>(), rejected.get<std::string>());
    }

    // Without an answer: tokens and text.
    std::pair<std::vector<std::int32_t>, std::string> read_prompt() const {
      if (prompt() == nullptr)
        location_.fail(fmt::format("has no prompt; it has {} (field_prompt or field_messages names it)",
                                   members_of(record_)));
      std::pair<std::vector<std::int32_t>, std::string> read;
      if (is_chat()) {
        read.second = encoder_.rendered_prompt(prompt_turns(), tools(), location_);
        read.first = encoder_.tokenizer_.encode(read.second, kNoSpecialTokens);
      } else {
        read.second = formatted(fields_.prompt_format, "{prompt}", prompt()->get<std::string>());
        read.first = encode_prompt(encoder_.tokenizer_, read.second);
      }
      if (read.first.empty()) location_.fail("the prompt is empty");
      return read;
    }

   private:
    const Json& answer(const char* what, const std::string& name,
                       std::span<const std::string_view> usual) const {
      const Json* found = member_of(record_, name, usual);
      if (found == nullptr)
        location_.fail(fmt::format("has no '{}' answer{}; it has {}", name.empty() ? what : name,
                                   encoder_.kind_ == PreferenceKind::pair ? ", so there is no pair" : "",
                                   members_of(record_)));
      if (found->empty() || (found->is_string() && found->get_ref<const std::string&>().empty()))
        location_.fail(fmt::format("the '{}' answer is empty", name.empty() ? what : name));
      return *found;
    }

    const Json* prompt() const { return member_of(record_, fields_.prompt, kPrompts); }

    // Whether the template writes the prompt, and so the answers.
    bool is_chat() const {
      const Json* given = prompt();
      return fields_.templated || (given != nullptr && !given->is_string());
    }

    std::string system() const {
      const auto found = record_.find(fields_.system);
      return found != record_.end() && found->is_string() ? found->get<std::string>() : std::string();
    }

    // ---- text -----------------------------------------------------------------------------------------

    std::string formatted(const std::string& format, const char* name, const std::string& text) const {
      return fill_format(format, {{name, text}, {"{system}", system()}});
    }

    EncodedSample text_pair(std::string chosen, std::string rejected) const {
      std::string begin;
      if (const Json* given = prompt()) {
        begin = given->get<std::string>();
      } else {
        std::size_t shared = common_prefix(chosen, rejected);
        if (shared > 0 && chosen[shared - 1] == ' ') --shared;
        if (shared == 0 || shared == chosen.size() || shared == rejected.size()) fail_without_prompt();
        begin = chosen.substr(0, shared);
        chosen.erase(0, shared);
        rejected.erase(0, shared);
      }
      begin = formatted(fields_.prompt_format, "{prompt}", begin);
      EncodedSample sample;
      encoder_.add_text(sample, begin, formatted(fields_.chosen_format, "{chosen}", chosen), location_);
      encoder_.add_text(sample, begin, formatted(fields_.rejected_format, "{rejected}", rejected), location_);
      return sample;
    }

    [[noreturn]] void fail_without_prompt() const {
      location_.fail(
          fmt::format("has no prompt, and the answers do not begin alike and end differently; it has "
                      "{} (field_prompt or field_messages names the prompt)",
                      members_of(record_)));
    }

    // ---- messages -------------------------------------------------------------------------------------

    // The messages that a member holds. `role`: of text.
    Turns turns_of(const Json& value, const char* role) const {
      Json list = value;
      if (value.is_object()) list = Json::array({value});
      if (value.is_string()) {
        list = parse_json_or_discard<Json>(value.get_ref<const std::string&>());  // as tables have to keep it
        if (!list.is_array()) list = Json::array({Json{{"role", role}, {"content", value}}});
      }
      ChatFields fields = fields_.chat;
      fields.messages = "messages";
      const Json messages{{"messages", list}};
      return read_chat(messages, fields, location_).turns;
    }

    Turns prompt_turns() const {
      const Json* given = prompt();
      Turns turns = given == nullptr ? Turns{} : turns_of(*given, "user");
      const std::string first = system();
      if (!first.empty() && !turns.empty() && turns.front().role != "system" &&
          !fields_.chat.drop_system_message)
        turns.insert(turns.begin(),
                     {"system", dump_json(Json{{"role", "system"}, {"content", first}}), std::nullopt});
      return turns;
    }

    std::string tools() const {
      const auto found = record_.find(fields_.chat.tools);
      if (found == record_.end() || found->is_null()) return "null";
      return found->is_string() ? found->get<std::string>() : dump_json(*found);
    }

    // Where both answers are whole conversations, what they begin with is the prompt.
    EncodedSample chat_pair(const Json& better, const Json& worse) const {
      Turns chosen = turns_of(better, "assistant"), rejected = turns_of(worse, "assistant"), begin;
      if (!is_assistant(chosen.front()) || !is_assistant(rejected.front()) || prompt() == nullptr) {
        std::size_t shared = 0;
        while (shared < std::min(chosen.size(), rejected.size()) &&
               chosen[shared].json == rejected[shared].json)
          ++shared;
        if (shared == 0 || shared == chosen.size() || shared == rejected.size()) fail_without_prompt();
        const auto end = static_cast<std::ptrdiff_t>(shared);
        begin.assign(chosen.begin(), chosen.begin() + end);
        chosen.erase(chosen.begin(), chosen.begin() + end);
        rejected.erase(rejected.begin(), rejected.begin() + end);
      } else {
        begin = prompt_turns();
      }
      EncodedSample sample;
      encoder_.add_chat(sample, begin, chosen, tools(), location_);
      encoder_.add_chat(sample, begin, rejected, tools(), location_);
      return sample;
    }

    // ---- verdicts -------------------------------------------------------------------------------------

    EncodedSample read_verdict() const {
      const bool desirable = label();
      const Json& given = answer("completion", fields_.completion, kCompletion);
      EncodedSample sample;
      if (is_chat() || !given.is_string()) {
        Turns turns = turns_of(given, "assistant"), begin = prompt_turns();
        if (!is_assistant(turns.front())) {
          begin.assign(turns.begin(), turns.end() - 1);
          turns.erase(turns.begin(), turns.end() - 1);
        }
        encoder_.add_chat(sample, begin, turns, tools(), location_);
      } else {
        if (prompt() == nullptr) fail_without_prompt();
        encoder_.add_text(sample, formatted(fields_.prompt_format, "{prompt}", prompt()->get<std::string>()),
                          formatted(fields_.completion_format, "{completion}", given.get<std::string>()),
                          location_);
      }
      sample.trained[0] = !desirable;
      return sample;
    }

    bool label() const {
      const auto found = record_.find(fields_.label);
      if (found == record_.end() || found->is_null())
        location_.fail(fmt::format("has no '{}' that says whether the answer is good; it has {}",
                                   fields_.label, members_of(record_)));
      if (found->is_boolean()) return found->get<bool>();
      if (found->is_number() && (*found == 0 || *found == 1)) return *found == 1;
      const std::string text = found->is_string() ? found->get<std::string>() : "";
      if (text == "true" || text == "True" || text == "1") return true;
      if (text == "false" || text == "False" || text == "0") return false;
      location_.fail(
          fmt::format("'{}' is {}; expected true or false, 1 or 0", fields_.label, dump_json(*found)));
    }

    const PreferenceEncoder& encoder_;
    const PreferenceFields& fields_;
    const Json& record_;
    const RecordLocation& location_;
  };

  static void add(EncodedSample& sample, const std::vector<std::int32_t>& tokens, std::size_t prompt,
                  const RecordLocation& location) {
    if (prompt == 0) location.fail("the prompt is empty");
    if (prompt == tokens.size()) location.fail("an answer is empty");
    sample.tokens.insert(sample.tokens.end(), tokens.begin(), tokens.end());
    sample.trained.insert(sample.trained.end(), prompt, false);
    sample.trained.insert(sample.trained.end(), tokens.size() - prompt, true);
  }

  void add_text(EncodedSample& sample, const std::string& prompt, const std::string& answer,
                const RecordLocation& location) const {
    std::vector<std::int32_t> tokens = encode_prompt(tokenizer_, prompt);
    const std::size_t begin = tokens.size();
    const std::vector<std::int32_t> behind = tokenizer_.encode(answer, kNoSpecialTokens);
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    if (tokenizer_.eos_id()) tokens.push_back(*tokenizer_.eos_id());
    sample.unterminated = sample.unterminated || !tokenizer_.eos_id();
    add(sample, tokens, begin, location);
  }

  void add_chat(EncodedSample& sample, const Turns& prompt, const Turns& answer, const std::string& tools,
                const RecordLocation& location) const {
    if (prompt.empty()) location.fail("has no prompt (field_prompt or field_messages names it)");
    if (!template_)
      location.fail("holds messages, but the tokenizer has no chat template; name one with chat_template");
    try {
      Turns all = prompt;
      all.insert(all.end(), answer.begin(), answer.end());
      const std::string text = render(all, tools, false);
      const std::string begin = render(prompt, tools, !is_assistant(prompt.back()));
      const std::vector<std::int32_t> tokens = tokenizer_.encode(text, kNoSpecialTokens);
      const std::vector<std::int32_t> before =
          tokenizer_.encode(std::string_view(text).substr(0, common_prefix(begin, text)), kNoSpecialTokens);
      add(sample, tokens,
          static_cast<std::size_t>(std::ranges::mismatch(before, tokens).in1 - before.begin()), location);
    } catch (const text::TemplateError& error) {
      location.fail(fmt::format("the chat template fails: {}", error.what()));
    }
  }

  std::string rendered_prompt(const Turns& prompt, const std::string& tools,
                              const RecordLocation& location) const {
    if (!template_)
      location.fail("holds messages, but the tokenizer has no chat template; name one with chat_template");
    try {
      return render(prompt, tools, !is_assistant(prompt.back()));
    } catch (const text::TemplateError& error) {
      location.fail(fmt::format("the chat template fails: {}", error.what()));
    }
  }

  std::string render(const Turns& turns, const std::string& tools, bool generation_prompt) const {
    const text::TokenizerConfig& config = tokenizer_.config();
    return template_->render({.messages = Chat{.turns = turns}.messages(),
                              .tools = tools,
                              .variables = variables_,
                              .add_generation_prompt = generation_prompt,
                              .bos_token = config.bos_token,
                              .eos_token = config.eos_token,
                              .unk_token = config.unk_token,
                              .pad_token = config.pad_token});
  }

  text::Tokenizer tokenizer_;
  std::optional<text::ChatTemplate> template_;
  PreferenceFields fields_;
  PreferenceKind kind_;
  std::string variables_;
};

// From `at` on: tokens that are not trained, then those that are.
PromptedAnswer answer_at(const TokenStore& store, std::int64_t at, std::int64_t first_unmasked,
                         std::int64_t end) {
  PromptedAnswer answer;
  std::int64_t next = first_unmasked;
  while (next < end && !store.trained(next)) ++next;
  answer.prompt = next - at;
  while (next < end && store.trained(next)) ++next;
  answer.tokens.resize(static_cast<std::size_t>(next - at));
  store.read(at, answer.tokens);
  return answer;
}

}  // namespace

bool PreferenceFields::found_in(const Record& record, PreferenceKind kind) const {
  if (kind == PreferenceKind::verdict)
    return record.json.contains(label) && member_of(record.json, completion, kCompletion) != nullptr;
  return member_of(record.json, chosen, kChosen) != nullptr ||
         member_of(record.json, rejected, kRejected) != nullptr;
}

SampleEncoder preference_encoder(const text::Tokenizer& tokenizer, const std::string& chat_template,
                                 const PreferenceFields& fields, PreferenceKind kind,
                                 const std::string& variables) {
  const auto encoder =
      std::make_shared<const PreferenceEncoder>(tokenizer, chat_template, fields, kind, variables);
  std::string mapped;
  for (const auto& [from, to] : fields.chat.properties) mapped += fmt::format("{}={};", from, to);
  for (const auto& [from, to] : fields.chat.roles) mapped += fmt::format("{}={};", from, to);
  const std::string options = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{} {}\n{}\n{}\n{}", chat_template, fields.prompt,
      fields.chosen, fields.rejected, fields.completion, fields.label, fields.system, fields.prompt_format,
      fields.chosen_format, fields.rejected_format, fields.completion_format, mapped, fields.templated,
      fields.chat.drop_system_message, fields.chat.tools, static_cast<int>(kind), variables);
  return {.encode = [encoder](const Record& record,
                              const RecordLocation& location) { return encoder->encode(record, location); },
          .is_record =
              [encoder](const Record& record) { return encoder->fields().found_in(record, encoder->kind()); },
          .show = token_shower(tokenizer),
          .vocab_size = tokenizer.vocab_size(),
          .identity = encoder_identity(tokenizer, "preference 1", options)};
}

std::vector<Prompt> load_prompts(const SourceOptions& source, const text::Tokenizer& tokenizer,
                                 const std::string& chat_template, const PreferenceFields& fields,
                                 const std::string& variables) {
  const PreferenceEncoder encoder(tokenizer, chat_template, fields, PreferenceKind::pair, variables);
  std::vector<Prompt> prompts;
  for_each_record(
      source, list_files(source),
      [&](const Record& record) { return member_of(record.json, fields.prompt, kPrompts) != nullptr; },
      [&](const Record& record, const RecordLocation& location) {
        auto [tokens, text] = encoder.encode_prompt_of(record, location);
        prompts.push_back({std::move(tokens), std::move(text), dump_json(record.json), location});
        return true;
      });
  if (prompts.empty()) throw IoError(fmt::format("{}", fmt::join(source.paths, ", ")), "holds no records");
  return prompts;
}

std::int64_t Preference::longest() const { return std::max(chosen.size(), rejected ? rejected->size() : 0); }

Preference read_preference(const TokenStore& store, TokenRange range, PreferenceKind kind) {
  Preference row;
  if (kind == PreferenceKind::verdict) {
    row.desirable = !store.trained(range.begin);
    row.chosen = answer_at(store, range.begin, range.begin + 1, range.end);
    return row;
  }
  row.chosen = answer_at(store, range.begin, range.begin, range.end);
  const std::int64_t next = range.begin + row.chosen.size();
  row.rejected = answer_at(store, next, next, range.end);
  return row;
}

}  // namespace ingot::data
