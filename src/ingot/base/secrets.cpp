#include "ingot/base/secrets.h"

#include <algorithm>
#include <cctype>

namespace ingot {
namespace {

constexpr const char* kHidden = "***";

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string normalized(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(), [](unsigned char c) {
    return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_';
  });
  return "_" + result + "_";
}

// "scheme://user:password@host": from the colon to the last "@" before the path.
void hide_passwords(std::string& text) {
  for (std::size_t at = 0; (at = text.find("://", at)) != std::string::npos;) {
    at += 3;
    const std::size_t end = std::min(text.find_first_of("/?#\"' \n\t", at), text.size());
    const std::size_t host = text.rfind('@', end);
    const std::size_t colon = text.find(':', at);
    if (host == std::string::npos || host < at || host >= end || colon >= host) continue;
    text.replace(colon + 1, host - colon - 1, kHidden);
  }
}

// "?X-Amz-Signature=...&token=...": the values of parameters whose names end like a secret's.
void hide_parameters(std::string& text) {
  constexpr std::string_view kEnds[] = {"token",      "signature", "secret", "password",
                                        "credential", "key",       "sig"};
  for (std::size_t at = 0; (at = text.find_first_of("?&", at)) != std::string::npos;) {
    const std::size_t stop = text.find_first_of("=&#\"' \n\t", ++at);
    if (stop == std::string::npos || text[stop] != '=') continue;
    const std::string name = lower_case(text.substr(at, stop - at));
    const bool secret = std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
    const std::size_t end = std::min(text.find_first_of("&#\"' \n\t", stop + 1), text.size());
    if (secret) text.replace(stop + 1, end - stop - 1, kHidden);
    at = stop;
  }
}

// Tokens that services mark as such.
void hide_tokens(std::string& text) {
  constexpr std::string_view kMarks[] = {"hf_",    "sk-",   "ghp_",  "github_pat_",
                                         "glpat-", "xoxb-", "xoxp-", "AKIA"};
  constexpr std::size_t kLeast = 12;  // shorter words mean something else
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  for (const std::string_view mark : kMarks) {
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += mark.size()) {
      const std::size_t begin = at + mark.size();
      std::size_t end = begin;
      while (end < text.size() && is_part(text[end])) ++end;
      if (end - begin >= kLeast && (at == 0 || !is_part(text[at - 1])))
        text.replace(begin, end - begin, kHidden);
    }
  }
}

// "NAME=value", also behind an option ("--set=api_key=x"): all that follows.
void hide_assigned(std::string& text) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  for (std::size_t at = 0; (at = text.find('=', at)) != std::string::npos; ++at) {
    std::size_t begin = at;
    while (begin > 0 && is_part(text[begin - 1])) --begin;
    if (begin > 0 && (text[begin - 1] == '?' || text[begin - 1] == '&')) continue;  // hide_parameters()'s
    if (at + 1 == text.size() || !names_a_secret(std::string_view(text).substr(begin, at - begin))) continue;
    text = text.substr(0, at + 1) + kHidden;
    return;
  }
}

}  // namespace

bool names_a_secret(std::string_view name) {
  const std::string words = normalized(name);
  for (const char* in_a_vocabulary : {"_cls_token_", "_bos_token_", "_eos_token_", "_pad_token_",
                                      "_unk_token_", "_sep_token_", "_mask_token_"})
    if (words.ends_with(in_a_vocabulary)) return false;
  for (const char* secret : {"_token_", "_api_key_", "_apikey_", "_password_", "_passwd_", "_secret_",
                             "_secret_key_", "_access_key_", "_authorization_", "_credentials_"})
    if (words.find(secret) != std::string::npos) return true;
  return false;
}

std::string without_secrets(std::string_view text) {
  std::string result(text);
  hide_passwords(result);
  hide_parameters(result);
  hide_tokens(result);
  hide_assigned(result);
  return result;
}

std::vector<std::string> without_secrets(std::vector<std::string> command) {
  bool secret = false;  // the word before names one
  for (std::string& word : command) {
    const bool option = word.starts_with("-");
    word = secret && !option ? kHidden : without_secrets(word);
    secret = option && word.find('=') == std::string::npos && names_a_secret(word);
  }
  return command;
}

}  // namespace ingot
