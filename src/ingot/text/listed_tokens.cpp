#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "ingot/text/json_view.h"
#include "ingot/text/tokenizer_spec.h"
#include "ingot/text/vocabulary.h"

namespace ingot::text {
namespace {

constexpr std::int64_t kMaxId = 1 << 30;

std::int32_t checked_id(const JsonView& where, std::int64_t id) {
  if (id < 0 || id > kMaxId) where.fail(fmt::format("the id {} is out of range", id));
  return static_cast<std::int32_t>(id);
}

class TokenList {
 public:
  explicit TokenList(TokenizerSpec& spec) : spec_(spec) {}

  void add(AddedToken token, std::int32_t id) {
    const auto same = [&](const AddedToken& t) { return t.content == token.content; };
    if (token.content.empty() || std::ranges::any_of(spec_.added_tokens, same)) return;
    const std::int32_t known = spec_.model->vocabulary().find(token.content);
    token.id = known >= 0 ? known : id;
    spec_.added_tokens.push_back(std::move(token));
  }

  /// A string, or an object like an entry of added_tokens.
  void add_special(const JsonView& value) {
    AddedToken token;
    if (value.is_string()) {
      token.content = value.string();
    } else {
      token = read_added_token(value);
    }
    token.special = true;
    add(std::move(token), next_id());
  }

 private:
  std::int32_t next_id() const {
    std::int32_t next = spec_.model->vocabulary().id_limit();
    for (const AddedToken& token : spec_.added_tokens) next = std::max(next, token.id + 1);
    return next;
  }

  TokenizerSpec& spec_;
};

void add_decoder(TokenList& list, const JsonView& decoder) {
  for (const std::string& key : decoder.keys()) {
    const JsonView entry = decoder.at(key);
    std::int64_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size()) entry.fail("the key is not an id");
    list.add(read_added_token(entry), checked_id(entry, id));
  }
}

// { "token": id }. Older tokenizers look for these in the text as it is written.
void add_map(TokenList& list, const JsonView& added) {
  for (const std::string& content : added.keys()) {
    const JsonView value = added.at(content);
    AddedToken token;
    token.content = content;
    list.add(std::move(token), checked_id(value, value.integer()));
  }
}

}  // namespace

void add_listed_tokens(TokenizerSpec& spec, const JsonView* config, const JsonView* added) {
  TokenList list(spec);
  if (config != nullptr && config->has("added_tokens_decoder")) {
    add_decoder(list, config->at("added_tokens_decoder"));
  }
  if (added != nullptr) add_map(list, *added);
  if (config == nullptr) return;
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!config->has(key)) continue;
    const JsonView tokens = config->at(key);
    if (tokens.is_object()) {  // { "name": token }
      for (const std::string& name : tokens.keys()) list.add_special(tokens.at(name));
    } else {
      for (const JsonView& token : tokens.items()) list.add_special(token);
    }
  }
}

}  // namespace ingot::text
