// Records of conversations, instructions and tables from a stranger. The first byte says what they are in.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ingot/base/error.h"
#include "ingot/data/chat.h"
#include "ingot/data/instruction.h"
#include "ingot/data/records.h"

namespace {

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const ingot::Error&) {  // refused, as it should be
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot::data;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const SourceFormat format = data[0] == 'l'   ? SourceFormat::jsonl
                              : data[0] == 't' ? SourceFormat::csv
                                               : SourceFormat::json;
  const ChatFields fields;
  const InstructionFormat instruction;
  attempt([&] {
    for_each_record(
        "input", text, format, [&](const Record& record) { return fields.found_in(record); },
        [&](const Record& record, const RecordLocation& location) {
          attempt([&] { [[maybe_unused]] const Chat chat = read_chat(record, fields, location); });
          attempt(
              [&] { [[maybe_unused]] const auto said = read_instruction(record, instruction, location); });
          return true;
        });
  });
  return 0;
}
