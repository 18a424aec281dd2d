#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/grammar/grammar.h"

namespace ingot::serve {

struct ToolCall {
  std::string name;
  std::string arguments;  ///< JSON
};

/// Tools and their parameters whose values are JSON where a format writes strings as they are.
using JsonParameters = std::set<std::pair<std::string, std::string>>;

/// How a family of models writes calls of tools: the grammar of what it writes, and what reads it back.
struct ToolFormat {
  std::vector<std::string_view> signs;  ///< what the chat template of such a model holds, all of them
  grammar::ToolGrammar grammar;  ///< without tools; no `begin`: a message that begins with '{' is a call
  /// The calls of what stands between `begin` and `end`; none where it is not calls.
  std::vector<ToolCall> (*read)(std::string_view body, const ToolFormat& format, const JsonParameters& json);
  bool short_ids = false;         ///< the template takes ids of nine letters and digits alone
  std::string_view id_mark = {};  ///< what may stand behind a name, before the call's id
};

/// The format of a chat template; Hermes' where it tells none.
const ToolFormat& find_tool_format(std::string_view chat_template);

/// The markers of reasoning that a chat template knows; no end where it knows none.
grammar::Thoughts find_thoughts(std::string_view chat_template);

}  // namespace ingot::serve
