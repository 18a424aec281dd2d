#include <map>
#include <string>

#include "ingot/grammar/json_text.h"
#include "ingot/grammar/pattern.h"

namespace ingot::grammar {
namespace {

const std::string kDate =
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|"
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]"
    ")";
const std::string kOctet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const std::string kIpv4 = "(?:" + kOctet + "\\.){3}" + kOctet;
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kHostname = kLabel + "(?:\\." + kLabel + ")*";

std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}", tail = "(?:" + group + ":" + group + "|" + kIpv4 + ")";
  std::string all = "(?:" + group + ":){6}" + tail;
  for (int before = 0; before <= 7; ++before) {  // groups before "::", and what may follow
    const std::string head =
        before == 0 ? "" : "(?:" + group + ":){" + std::to_string(before - 1) + "}" + group;
    const int room = 7 - before;  // at least one group is left out
    std::string behind =
        "(?:" + group + "(?::" + group + "){0," + std::to_string(room > 0 ? room - 1 : 0) + "})?";
    if (room == 0) behind = "";
    all += "|" + head + "::" + behind;
    if (room >= 2) {
      all += "|" + head + "::(?:" + group + ":){0," + std::to_string(room - 2) + "}" + kIpv4;
    }
  }
  return all;
}

std::string duration() {
  const std::string time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
  const std::string date = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
  return "P(?:" + date + "(?:" + time + ")?|" + time + "|[0-9]+W)";
}

const std::string kEscape = "%[0-9A-Fa-f]{2}";
const std::string kPathChar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" + kEscape + ")";
const std::string kUriTail = "(?:\\?(?:" + kPathChar + "|[/?])*)?(?:#(?:" + kPathChar + "|[/?])*)?";
const std::string kAuthority = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + kEscape + ")*@)?(?:\\[(?:" + ipv6() +
                               ")\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|" + kEscape + ")*)(?::[0-9]{1,5})?";
const std::string kUri = "[A-Za-z][A-Za-z0-9+.-]*:(?://" + kAuthority + "(?:/" + kPathChar +
                         "*)*|/(?:" + kPathChar + "+(?:/" + kPathChar + "*)*)?|" + kPathChar + "+(?:/" +
                         kPathChar + "*)*)" + kUriTail;
const std::string kUriReference = "(?:" + kUri + "|//" + kAuthority + "(?:/" + kPathChar + "*)*" + kUriTail +
                                  "|/(?:" + kPathChar + "+(?:/" + kPathChar + "*)*)?" + kUriTail +
                                  "|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" + kEscape + ")+(?:/" + kPathChar +
                                  "*)*" + kUriTail + "|" + kUriTail + ")";
const std::string kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

const std::map<std::string, std::string, std::less<>>& formats() {
  static const std::map<std::string, std::string, std::less<>> kFormats = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "[Tt]" + kTime},
      {"duration", duration()},
      {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
      {"email", kAtom + "(?:\\." + kAtom + ")*@" + kLabel + "(?:\\." + kLabel + ")*"},
      {"ipv4", kIpv4},
      {"ipv6", ipv6()},
      {"hostname", kHostname},
      {"uri", kUri},
      {"uri-reference", kUriReference},
      {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"}};
  return kFormats;
}

}  // namespace

std::optional<ExprId> string_format(Expressions& to, std::string_view format, bool json_string) {
  const auto found = formats().find(format);
  if (found == formats().end()) return std::nullopt;
  return compile_pattern(to, found->second, {.json_string = json_string}, "format");
}

}  // namespace ingot::grammar
