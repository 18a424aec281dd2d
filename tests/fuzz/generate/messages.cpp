#include "tests/fuzz/generate/source.h"

// Logs of mahjong, records of chats, what a hub says and what clients of a server send.

namespace ingot::test {
namespace {

const std::vector<std::string_view> kLogKeys{
    "type", "actor",  "target", "pai",    "consumed",    "tsumogiri", "bakaze",      "kyoku",  "honba",
    "oya",  "scores", "tehais", "deltas", "dora_marker", "names",     "ura_markers", "kyotaku"};
const std::vector<std::string_view> kChatKeys{
    "messages",   "conversations", "role",        "content",   "from",   "value",
    "tool_calls", "function",      "name",        "arguments", "tools",  "weight",
    "text",       "prompt",        "instruction", "input",     "output", "system"};
const std::vector<std::string_view> kListingKeys{"sha",    "siblings", "rfilename", "size", "lfs",
                                                 "sha256", "blobId",   "oid",       "path", "type"};

std::string events(Source& source) {
  std::string log = "{\"type\":\"start_game\"}\n";
  for (std::size_t n = source.below(20); n > 0; --n) {
    const std::string_view type =
        source.one_of({"start_kyoku", "tsumo", "dahai", "chi", "pon", "daiminkan", "ankan", "kakan", "reach",
                       "reach_accepted", "hora", "ryukyoku", "dora", "end_kyoku", "end_game"});
    log += "{\"type\":\"" + std::string(type) + "\",\"actor\":" + source.number() +
           ",\"target\":" + source.number() + ",\"pai\":\"" +
           std::string(source.one_of({"1m", "5sr", "C", "?", "0m", "9", ""})) +
           "\",\"x\":" + hostile_json(source, kLogKeys) + "}\n";
  }
  return log;
}

std::string tenhou(Source& source) {
  std::string log = "{\"rule\":{\"disp\":\"x\",\"aka\":" + source.number() + "},\"log\":[[[" +
                    source.number() + ",0,0],[25000,25000,25000,25000],[41],[]";
  for (int player = 0; player < 4; ++player) {
    for (const bool drawn : {false, true}) {
      log += ",[";
      for (std::size_t n = drawn ? source.below(20) : 13; n > 0; --n)
        log += source.one_in(8)
                   ? "\"" + std::string(source.one_of({"c222123", "r60", "39p3939", "m11k111111", "f44"})) +
                         "\","
                   : std::to_string(11 + source.below(37)) + ",";
      log += "60]";
    }
    log += ",[60,60]";
  }
  return log + ",[\"" + std::string(source.one_of({"流局", "和了", "九種九牌", "x"})) + "\",[" +
         source.number() + ",0,0,0]," + hostile_json(source, kLogKeys) + "]]]}";
}

std::string xml(Source& source) {
  std::string log = "<mjloggm ver=\"2.3\">";
  for (std::size_t n = source.below(60); n > 0; --n) {
    switch (source.below(5)) {
      case 0:
        log += "<" + std::string(source.one_of({"T", "D", "U", "E", "V", "F", "W", "G"})) + source.number() +
               "/>";
        break;
      case 1:
        log += "<N who=\"" + source.number() + "\" m=\"" + source.number() + "\"/>";
        break;
      case 2:
        log += "<INIT seed=\"0,0,0,1,2," + source.number() + "\" ten=\"250,250," + source.number() +
               "\" oya=\"" + source.number() + "\" hai0=\"0,4,8,12,21,24,28,32,36,40,44,48,53\"/>";
        break;
      case 3:
        log += "<AGARI who=\"" + source.number() + "\" fromWho=\"" + source.number() +
               "\" sc=\"1,2\" ten=\"" + source.number() + ",1,0\" hai=\"" + source.text() + "\"/>";
        break;
      default:
        log += "<" + source.text() + (source.one_in(2) ? "/>" : ">");
    }
  }
  return log + (source.one_in(2) ? "</mjloggm>" : "");
}

}  // namespace

std::string hostile_log(Source& source) {
  switch (source.below(3)) {
    case 0:
      return events(source);
    case 1:
      return tenhou(source);
    default:
      return xml(source);
  }
}

/// Behind the byte that chooses how they are read: l(ines), j(son) or t(able).
std::string hostile_records(Source& source) {
  std::string text(source.one_of({"l", "j", "t"}));
  if (text == "t") return text + hostile_table(source);
  const std::size_t records = source.one_in(20) ? 2000 : 1 + source.below(6);
  if (text == "j") text += "[";
  for (std::size_t i = 0; i < records && text.size() < (1 << 20); ++i) {
    if (text.front() == 'j' && i > 0) text += ",";
    std::string record = hostile_json(source, kChatKeys);
    if (source.one_in(2))
      record = "{\"messages\":[{\"role\":\"user\",\"content\":" + record +
               "},{\"role\":\"assistant\",\"content\":\"" + source.text() +
               "\",\"tool_calls\":" + hostile_json(source, kChatKeys) + "}]}";
    text += record;
    if (text.front() == 'l') text += source.one_of({"\n", "\r\n", "\n\n", ""});
  }
  return text + (text.front() == 'j' ? "]" : "");
}

/// The first byte is that of the target's choice.
std::string hostile_listing(Source& source) {
  switch (source.below(6)) {
    case 0:
      return "h" + hostile_json(source, kListingKeys);
    case 1: {
      std::string page = "s<ListBucketResult>";
      for (std::size_t n = source.one_in(20) ? 2000 : source.below(6); n > 0; --n)
        page += "<Contents><Key>" + source.text() + "</Key><Size>" + source.number() + "</Size>" +
                std::string(source.one_of({"</Contents>", "<Contents>", "&#x0;", "&amp;&lt", "<![CDATA[",
                                           "<!DOCTYPE a [<!ENTITY b \"c\">]>"}));
      return page + "</ListBucketResult>";
    }
    case 2:
      return "a[default]\n" + source.text() + "=" + source.text() + "\n[" + source.text();
    case 3:
      return "rhf://" + source.text() + "/" + source.text() + "@" + source.text();
    case 4:
      return "us3://" + source.text() + "/" + source.text();
    default:
      return "cbytes " + source.number() + "-" + source.number() + "/" + source.number();
  }
}

std::string hostile_request(Source& source) {
  std::string text =
      std::string(source.one_of({"GET", "POST", "OPTIONS", "\x16\x03\x01", "PRI", ""})) + " /" +
      (source.one_in(3) ? source.text() : "v1/chat/completions") +
      std::string(source.one_of({" HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/2.0\r\n", "\r\n", "\n"}));
  for (std::size_t n = source.one_in(30) ? 500 : source.below(8); n > 0; --n) {
    text += std::string(source.one_of({"Host", "Content-Length", "Transfer-Encoding", "Expect", "Connection",
                                       "Authorization", "Content-Type", "X"})) +
            std::string(source.one_of({": ", ":", " : ", ""})) +
            (source.one_in(2)
                 ? source.number()
                 : std::string(source.one_of({"chunked", "gzip, chunked", "100-continue", "close", "Bearer x",
                                              "application/json", "chunked\r\n folded"}))) +
            std::string(source.one_of({"\r\n", "\r\n", "\n", "\r"}));
  }
  text += "\r\n";
  if (source.one_in(2)) text += hostile_json(source, kChatKeys);
  if (source.one_in(3))
    text += std::string(
        source.one_of({"5\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "-1\r\n\r\n", "1;x=y\r\na\r\n"}));
  return text;
}

}  // namespace ingot::test
