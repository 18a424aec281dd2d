#include "ingot/data/parquet/metadata.h"

#include <fmt/format.h>

#include "ingot/data/parquet/thrift.h"

namespace ingot::data::parquet {
namespace {

constexpr std::string_view kDamaged = "; the file is damaged or cut short";

std::int64_t ticks_of_unit(ThriftReader& in) {
  std::int64_t ticks = 1000;
  in.read_struct([&](int unit) {
    ticks = unit == 3 ? 1'000'000'000 : unit == 2 ? 1'000'000 : 1000;
    return false;
  });
  return ticks;
}

void read_time(ThriftReader& in, Element& element, Meaning meaning) {
  element.meaning = meaning;
  in.read_struct([&](int id) {
    if (id == 1) return element.utc = in.boolean(), true;
    if (id == 2) return element.ticks = ticks_of_unit(in), true;
    return false;
  });
}

void read_integer_type(ThriftReader& in, Element& element) {
  bool has_sign = true;
  in.read_struct([&](int id) {
    if (id == 1) return element.bits = in.small(), true;
    if (id == 2) return has_sign = in.boolean(), true;
    return false;
  });
  if (!has_sign) element.meaning = Meaning::natural;
}

void read_logical_type(ThriftReader& in, Element& element) {
  in.read_struct([&](int id) {
    switch (id) {
      case 1:  // STRING, ENUM, JSON
      case 4:
      case 12:
        element.meaning = Meaning::text;
        return false;
      case 2:
        element.meaning = Meaning::map;
        return false;
      case 3:
        element.meaning = Meaning::list;
        return false;
      case 5:
        element.meaning = Meaning::decimal;
        in.read_struct([&](int part) { return part == 1 && (element.scale = in.small(), true); });
        return true;
      case 6:
        element.meaning = Meaning::date;
        return false;
      case 7:
        return read_time(in, element, Meaning::clock), true;
      case 8:
        return read_time(in, element, Meaning::moment), true;
      case 10:
        return read_integer_type(in, element), true;
      case 14:
        element.meaning = Meaning::uuid;
        return false;
      case 15:
        element.meaning = Meaning::half;
        return false;
      default:
        return false;
    }
  });
}

// What older writers say in place of a logical type; moments and clocks of it are of UTC.
void read_converted_type(std::int32_t type, Element& element) {
  const auto set = [&](Meaning meaning, std::int64_t ticks = 1) {
    element.meaning = meaning;
    element.ticks = ticks;
    element.utc = true;
  };
  switch (type) {
    case 0:  // UTF8, ENUM, JSON
    case 4:
    case 19:
      return set(Meaning::text);
    case 1:
    case 2:
      return set(Meaning::map);
    case 3:
      return set(Meaning::list);
    case 5:
      return set(Meaning::decimal);
    case 6:
      return set(Meaning::date);
    case 7:
    case 8:
      return set(Meaning::clock, type == 7 ? 1000 : 1'000'000);
    case 9:
    case 10:
      return set(Meaning::moment, type == 9 ? 1000 : 1'000'000);
    case 11:
    case 12:
    case 13:
    case 14:
      element.bits = 8 << (type - 11);
      return set(Meaning::natural);
    default:
      return;
  }
}

// Whether values of the physical type can mean that; else they mean themselves.
bool fits(const Element& element) {
  if (!element.physical) return element.meaning == Meaning::list || element.meaning == Meaning::map;
  const Physical physical = *element.physical;
  const bool integer = physical == Physical::int32 || physical == Physical::int64;
  switch (element.meaning) {
    case Meaning::text:
      return physical == Physical::bytes || physical == Physical::fixed;
    case Meaning::natural:
    case Meaning::clock:
    case Meaning::moment:
    case Meaning::date:
      return integer;
    case Meaning::decimal:
      return integer || physical == Physical::bytes || physical == Physical::fixed;
    case Meaning::half:
      return physical == Physical::fixed && element.length == 2;
    case Meaning::uuid:
      return physical == Physical::fixed && element.length == 16;
    default:
      return element.meaning == Meaning::plain;
  }
}

Element read_element(ThriftReader& in, const Location& location) {
  Element element;
  std::optional<std::int32_t> converted, scale;
  bool logical = false;
  in.read_struct([&](int id) {
    switch (id) {
      case 1: {
        const std::int32_t type = in.small();
        if (type < 0 || type > 7) location.fail(fmt::format("names a type {}, which Parquet has not", type));
        element.physical = static_cast<Physical>(type);
        return true;
      }
      case 2:
        return element.length = in.small(), true;
      case 3: {
        const std::int32_t repetition = in.small();
        element.optional = repetition == 1;
        element.repeated = repetition == 2;
        return true;
      }
      case 4:
        return element.name = in.binary(), true;
      case 5:
        return element.children = in.small(), true;
      case 6:
        return converted = in.small(), true;
      case 7:
        return scale = in.small(), true;
      case 10:
        return logical = true, read_logical_type(in, element), true;
      default:
        return false;
    }
  });
  if (converted && (!logical || element.meaning == Meaning::plain)) read_converted_type(*converted, element);
  if (element.meaning == Meaning::decimal && scale) element.scale = *scale;
  if (element.children > 0) element.physical.reset();
  if (!fits(element)) element.meaning = Meaning::plain;
  const bool sized = element.physical != Physical::fixed || (element.length > 0 && element.length <= 1 << 20);
  if (!sized) location.fail(fmt::format("has values of {} bytes in '{}'", element.length, element.name));
  if (element.scale < 0 || element.scale > 1000)
    location.fail(fmt::format("has a decimal scale of {} in '{}'", element.scale, element.name));
  return element;
}

void read_chunk_metadata(ThriftReader& in, Chunk& chunk, const Location& location) {
  std::int64_t data = -1, dictionary = -1;
  in.read_struct([&](int id) {
    switch (id) {
      case 1:
        return chunk.physical = static_cast<Physical>(in.small() & 7), true;
      case 4: {
        const std::int32_t codec = in.small();
        if (codec < 0 || codec > 7)
          location.fail(fmt::format("is packed with a codec of number {}, which is not known", codec));
        return chunk.codec = static_cast<Codec>(codec), true;
      }
      case 5:
        return chunk.values = in.integer(), true;
      case 7:
        return chunk.size = in.integer(), true;
      case 9:
        return data = in.integer(), true;
      case 11:
        return dictionary = in.integer(), true;
      default:
        return false;
    }
  });
  // Some writers give 0 for a dictionary that is not there.
  chunk.offset = dictionary > 0 && dictionary < data ? dictionary : data;
}

Chunk read_chunk(ThriftReader& in, const Location& location) {
  Chunk chunk;
  bool found = false, elsewhere = false;
  in.read_struct([&](int id) {
    if (id == 1) return elsewhere = !in.binary().empty(), true;
    if (id == 3) return found = true, read_chunk_metadata(in, chunk, location), true;
    return false;
  });
  if (elsewhere) location.fail("keeps its columns in other files; expected a file with its data");
  if (!found) location.fail("does not say where a column is; it is encrypted or damaged");
  return chunk;
}

RowGroup read_group(ThriftReader& in, const Location& location) {
  RowGroup group;
  in.read_struct([&](int id) {
    if (id == 1) return in.read_list([&] { group.chunks.push_back(read_chunk(in, location)); }), true;
    if (id == 3) return group.rows = in.integer(), true;
    return false;
  });
  return group;
}

void check_groups(const Metadata& metadata, std::string_view file, const Location& location) {
  // A row of nothing but repeated values takes no byte, but pages of them do.
  constexpr std::int64_t kSmall = 1 << 20, kMostPerByte = 4096;
  std::size_t leaves = 0;
  for (const Element& element : metadata.schema) leaves += element.physical ? 1 : 0;
  const auto size = static_cast<std::int64_t>(file.size());
  std::int64_t rows = 0;
  for (const RowGroup& group : metadata.groups) {
    if (group.chunks.size() != leaves)
      location.fail(fmt::format("has {} columns in a row group and {} in its schema{}", group.chunks.size(),
                                leaves, kDamaged));
    if (group.rows < 0 || group.rows > kSmall + size * kMostPerByte - rows)
      location.fail(fmt::format("tells of {} rows in a file of {} bytes{}", group.rows, size, kDamaged));
    rows += group.rows;
    for (const Chunk& chunk : group.chunks) {
      if (chunk.offset < 0 || chunk.size < 0 || chunk.offset > size || chunk.size > size - chunk.offset)
        location.fail(fmt::format("puts a column at bytes {} to {} + {}, and the file has {}{}", chunk.offset,
                                  chunk.offset, chunk.size, size, kDamaged));
    }
  }
}

}  // namespace

Metadata read_metadata(std::string_view file, const Location& location) {
  constexpr std::size_t kTail = 8;  // the footer's length, and the mark
  if (file.ends_with("PARE")) location.fail("is encrypted; write it without encryption");
  if (file.size() < kTail + 4 || !file.ends_with("PAR1"))
    location.fail("is missing: a Parquet file ends with PAR1; this one is cut short");
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i)
    length |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(file[file.size() - kTail + i])) << (8 * i);
  if (length > file.size() - kTail - 4)
    location.fail(
        fmt::format("has {} bytes by its own account, and the file {}{}", length, file.size(), kDamaged));
  Location here = location;
  here.offset = static_cast<std::int64_t>(file.size() - kTail - length);
  ThriftReader in(file.substr(static_cast<std::size_t>(here.offset), length), here);
  Metadata metadata;
  in.read_struct([&](int id) {
    switch (id) {
      case 2:
        return in.read_list([&] { metadata.schema.push_back(read_element(in, here)); }), true;
      case 4:
        return in.read_list([&] { metadata.groups.push_back(read_group(in, here)); }), true;
      case 8:
        here.fail("is of an encrypted file; write it without encryption");
      default:
        return false;
    }
  });
  if (metadata.schema.empty()) here.fail("has no schema; the file is damaged");
  metadata.schema[0].physical.reset();
  check_groups(metadata, file, here);
  for (const RowGroup& group : metadata.groups) metadata.rows += group.rows;
  return metadata;
}

namespace {

Encoding read_encoding(ThriftReader& in, const Location& location) {
  const std::int32_t number = in.small();
  if (number < 0 || number > 9)
    location.fail(fmt::format("has values in an encoding of number {}, which is not known", number));
  return static_cast<Encoding>(number);
}

// Of a dictionary, and of data pages of version 1.
void read_page_v1(ThriftReader& in, PageHeader& header, const Location& location) {
  in.read_struct([&](int id) {
    if (id == 1) return header.values = in.small(), true;
    if (id == 2) return header.encoding = read_encoding(in, location), true;
    if (header.type != PageType::data) return false;
    if (id == 3) return header.definition_levels = read_encoding(in, location), true;
    if (id == 4) return header.repetition_levels = read_encoding(in, location), true;
    return false;
  });
}

void read_page_v2(ThriftReader& in, PageHeader& header, const Location& location) {
  in.read_struct([&](int id) {
    switch (id) {
      case 1:
        return header.values = in.small(), true;
      case 4:
        return header.encoding = read_encoding(in, location), true;
      case 5:
        return header.definition_size = in.small(), true;
      case 6:
        return header.repetition_size = in.small(), true;
      case 7:
        return header.packed = in.boolean(), true;
      default:
        return false;
    }
  });
}

}  // namespace

PageHeader read_page_header(std::string_view bytes, const Location& location) {
  ThriftReader in(bytes, location);
  PageHeader header;
  in.read_struct([&](int id) {
    switch (id) {
      case 1: {
        const std::int32_t type = in.small();
        if (type < 0 || type > 3) location.fail(fmt::format("is of type {}, which is not known", type));
        return header.type = static_cast<PageType>(type), true;
      }
      case 2:
        return header.unpacked_size = in.small(), true;
      case 3:
        return header.packed_size = in.small(), true;
      case 5:
      case 7:
        return read_page_v1(in, header, location), true;
      case 8:
        return read_page_v2(in, header, location), true;
      default:
        return false;
    }
  });
  header.size = in.position();
  const bool sizes = header.packed_size >= 0 && header.unpacked_size >= 0 && header.values >= 0 &&
                     header.definition_size >= 0 && header.repetition_size >= 0;
  if (!sizes) location.fail("has a negative size; the file is damaged");
  if (static_cast<std::size_t>(header.packed_size) > bytes.size() - header.size)
    location.fail(fmt::format("has {} bytes by its own account, and {} are left{}", header.packed_size,
                              bytes.size() - header.size, kDamaged));
  return header;
}

}  // namespace ingot::data::parquet
