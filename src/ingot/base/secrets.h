#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ingot {

/// Whether an option or a key of this name holds a secret: "--api-key", "hub.token", "password".
bool names_a_secret(std::string_view name);

/// The text with "***" instead of what looks like a secret: passwords in URLs, signatures and tokens in
/// their queries, tokens of known services ("hf_...", "sk-..."), the value of NAME=value where the name says
/// so.
std::string without_secrets(std::string_view text);

/// The same for the words of a command line, where a secret may also be the word behind its option.
std::vector<std::string> without_secrets(std::vector<std::string> command);

}  // namespace ingot
