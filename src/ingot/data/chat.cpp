#include "ingot/data/chat.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kMessages{"messages", "conversations", "conversation"};
constexpr std::array<const char*, 2> kRole{"role", "from"};
constexpr std::array<const char*, 3> kContent{"content", "value", "text"};

// Words of data sets for the four roles of templates.
std::string usual_role(const std::string& word) {
  if (word == "human") return "user";
  if (word == "gpt" || word == "chatgpt" || word == "bot" || word == "model" || word == "function_call")
    return "assistant";
  if (word == "function_response" || word == "observation") return "tool";
  return word;
}

template <class Names>
const char* first_of(const Json& object, const Names& names) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return object.contains(name); });
  return found == names.end() ? nullptr : *found;
}

std::string keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

// JSON that a data set keeps in a string, as tables have to.
Json parsed(const Json& value) {
  if (!value.is_string()) return value;
  Json inner = parse_json_or_discard<Json>(value.get_ref<const std::string&>());
  return inner.is_array() || inner.is_object() ? inner : value;
}

class ChatReader {
 public:
  ChatReader(const Json& record, const ChatFields& fields, const RecordLocation& location)
      : record_(record), fields_(fields), location_(location) {}

  Chat read() const {
    Chat chat;
    const Json list = messages();
    for (const Json& message : list) add(chat, message);
    add_system(chat);
    const auto tools = record_.find(fields_.tools);
    if (tools != record_.end() && !tools->is_null()) chat.tools = tools_json(*tools);
    return chat;
  }

 private:
  Json messages() const {
    const std::string key = fields_.messages.empty() ? first_of(record_, kMessages) : fields_.messages;
    const auto found = record_.find(key);
    if (found == record_.end())
      location_.fail(
          fmt::format("has no '{}'; it has {} (field_messages names the messages)", key, keys_of(record_)));
    Json list = parsed(*found);
    if (!list.is_array() || list.empty())
      location_.fail(fmt::format("'{}' is {}; expected a list of messages", key,
                                 list.empty() ? "empty" : list.type_name()));
    return list;
  }

  void add(Chat& chat, const Json& given) const {
    const std::string where = fmt::format("message {}", chat.turns.size() + 1);
    if (!given.is_object()) location_.fail(fmt::format("{} is {}, not an object", where, given.type_name()));
    const std::string role_key = key_of(given, "role", kRole, where);
    const Json& role = given.at(role_key);
    if (!role.is_string()) location_.fail(fmt::format("{}: '{}' is not a string", where, role_key));
    Json message{{"role", role_of(role.get<std::string>())}};
    if (fields_.drop_system_message && message["role"] == "system") return;
    const bool calls = given.contains("tool_calls") && !given["tool_calls"].is_null();
    const auto mapped = fields_.properties.find("content");
    const bool has_content = mapped != fields_.properties.end() ? given.contains(mapped->second)
                                                                : first_of(given, kContent) != nullptr;
    if (has_content || !calls) {
      const std::string key = key_of(given, "content", kContent, where);
      message["content"] = content_of(given.at(key), where, calls);
      add_others(message, given, role_key, key);
    } else {
      add_others(message, given, role_key, "");
    }
    chat.turns.push_back({message["role"], dump_json(message), trained(given, where)});
  }

  // The member that holds `property`: as the fields say, or under its usual names.
  template <class Names>
  std::string key_of(const Json& message, const char* property, const Names& names,
                     const std::string& where) const {
    const auto mapped = fields_.properties.find(property);
    if (mapped != fields_.properties.end() && message.contains(mapped->second)) return mapped->second;
    const char* usual = mapped == fields_.properties.end() ? first_of(message, names) : nullptr;
    if (usual == nullptr)
      location_.fail(fmt::format("{} has no '{}'; it has {} (message_property_mappings names it)", where,
                                 mapped == fields_.properties.end() ? property : mapped->second,
                                 keys_of(message)));
    return usual;
  }

  std::string role_of(const std::string& word) const {
    if (fields_.roles.empty()) return usual_role(word);
    const auto found = fields_.roles.find(word);
    return found == fields_.roles.end() ? word : found->second;
  }

  Json content_of(const Json& content, const std::string& where, bool calls) const {
    if (content.is_string() || (content.is_null() && calls)) return content;
    if (!content.is_array())
      location_.fail(fmt::format("{}: the content is {}; expected a string", where, content.type_name()));
    std::string text;
    for (const Json& part : content) {
      if (part.is_object() && part.value("type", "") == "text" && part.contains("text")) {
        text += part["text"].get<std::string>();
        continue;
      }
      location_.fail(fmt::format("{} has a part of type '{}'; only text is trained", where,
                                 part.is_object() ? part.value("type", "none") : part.type_name()));
    }
    return text;
  }

  void add_others(Json& message, const Json& given, const std::string& role,
                  const std::string& content) const {
    for (const auto& [name, key] : fields_.properties)
      if (name != "role" && name != "content" && given.contains(key) && !given[key].is_null())
        message[name] = given[key];
    for (const auto& [key, value] : given.items()) {
      if (key == role || key == content || value.is_null() || message.contains(key)) continue;
      message[key] = key == "tool_calls" ? calls_of(value) : value;
    }
  }

  // Templates write arguments as JSON themselves.
  static Json calls_of(const Json& given) {
    Json calls = parsed(given);
    if (!calls.is_array()) return calls;
    for (Json& call : calls) {
      if (!call.is_object()) continue;
      Json& function = call.contains("function") && call["function"].is_object() ? call["function"] : call;
      if (function.contains("arguments")) function["arguments"] = parsed(function["arguments"]);
    }
    return calls;
  }

  static std::string tools_json(const Json& given) {
    Json tools = parsed(given);
    if (tools.is_array())
      for (Json& tool : tools) tool = parsed(tool);
    return dump_json(tools);
  }

  std::optional<bool> trained(const Json& message, const std::string& where) const {
    const std::string key = fields_.training.empty() ? "weight" : fields_.training;
    const auto found = message.find(key);
    if (found == message.end() || found->is_null()) return std::nullopt;
    if (found->is_boolean()) return found->get<bool>();
    if (found->is_number() && (*found == 0 || *found == 1)) return *found == 1;
    location_.fail(
        fmt::format("{}: '{}' is {}; expected true or false, 1 or 0", where, key, dump_json(*found)));
  }

  // A column beside the messages.
  void add_system(Chat& chat) const {
    const auto found = record_.find(fields_.system);
    if (found == record_.end() || !found->is_string() || fields_.drop_system_message) return;
    if (found->get_ref<const std::string&>().empty() || chat.turns.empty() ||
        chat.turns.front().role == "system")
      return;
    chat.turns.insert(chat.turns.begin(),
                      {"system", dump_json(Json{{"role", "system"}, {"content", *found}}), std::nullopt});
  }

  const Json& record_;
  const ChatFields& fields_;
  const RecordLocation& location_;
};

}  // namespace

std::string Chat::messages(std::size_t count) const {
  std::string out = "[";
  for (std::size_t i = 0; i < std::min(count, turns.size()); ++i) out += (i > 0 ? ", " : "") + turns[i].json;
  return out + "]";
}

bool ChatFields::found_in(const Record& of) const {
  const Json& record = of.json;
  if (!messages.empty()) return record.contains(messages);
  const char* key = first_of(record, kMessages);
  return key != nullptr && parsed(record[key]).is_array();
}

Chat read_chat(const Record& of, const ChatFields& fields, const RecordLocation& location) {
  const Json& record = of.json;
  if (fields.messages.empty() && first_of(record, kMessages) == nullptr)
    location.fail(fmt::format("has no 'messages'; it has {} (field_messages names them)", keys_of(record)));
  return ChatReader(record, fields, location).read();
}

}  // namespace ingot::data
