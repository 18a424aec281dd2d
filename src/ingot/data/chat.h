#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ingot/data/records.h"

namespace ingot::data {

/// One message of a chat, as a template reads it.
struct ChatTurn {
  std::string role;
  std::string json;           ///< the message: an object with "role", "content", "tool_calls" ...
  std::optional<bool> train;  ///< what the record itself says about it
};

/// A conversation, and the functions that its model may call.
struct Chat {
  std::vector<ChatTurn> turns;
  std::string tools = "null";  ///< JSON

  /// The messages as a JSON list: the first `count` of them, or all.
  std::string messages(std::size_t count = std::string::npos) const;
};

/// Under which names a record holds a chat. The defaults read OpenAI's form (messages of role and content),
/// ShareGPT's (conversations of from and value), and mixtures of both.
struct ChatFields {
  std::string messages;                           ///< empty: "messages", "conversations", "conversation"
  std::map<std::string, std::string> properties;  ///< of a message, from the template's name to the record's
  std::map<std::string, std::string> roles;       ///< from the record's word to the template's
  std::string tools = "tools", system = "system";
  std::string training;              ///< of a message: whether it is trained; empty: "weight", 0 or 1
  bool drop_system_message = false;  ///< system messages are left out

  /// Whether the record has a list of messages.
  bool found_in(const Record& record) const;
};

/// The chat of a record. Names and roles become those that templates know (human: user, gpt: assistant),
/// text parts of a content are concatenated, tools and arguments of calls that are JSON in a string are
/// parsed. FormatError at `location` says what is missing.
Chat read_chat(const Record& record, const ChatFields& fields, const RecordLocation& location);

}  // namespace ingot::data
