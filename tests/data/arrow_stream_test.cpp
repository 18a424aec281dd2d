#include "ingot/data/arrow_stream.h"

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/data/arrow/c_interface.h"

namespace ingot::data {
namespace {

using arrow::CArray;
using arrow::CSchema;
using arrow::CStream;
using test::message_of;

// One column of two batches, as a library would hand it over, and how often it was told that it may free
// what.
struct Source {
  std::string format;
  std::vector<std::array<const void*, 3>> batches;
  std::vector<std::int64_t> lengths, offsets;
  std::string error = {};
  int released = 0;

  std::size_t next = 0;
  CSchema field{};
  CSchema* fields[1] = {&field};
  CArray column{};
  CArray* columns[1] = {&column};

  CStream stream() {
    CStream made{};
    made.private_data = this;
    made.get_schema = [](CStream* s, CSchema* out) {
      auto& self = *static_cast<Source*>(s->private_data);
      self.field = {.format = self.format.c_str(),
                    .name = "a",
                    .metadata = nullptr,
                    .flags = 2,
                    .n_children = 0,
                    .children = nullptr,
                    .dictionary = nullptr,
                    .release = nullptr,
                    .private_data = nullptr};
      *out = {.format = "+s",
              .name = nullptr,
              .metadata = nullptr,
              .flags = 0,
              .n_children = 1,
              .children = self.fields,
              .dictionary = nullptr,
              .release = [](CSchema* x) { ++static_cast<Source*>(x->private_data)->released; },
              .private_data = &self};
      return 0;
    };
    made.get_next = [](CStream* s, CArray* out) {
      auto& self = *static_cast<Source*>(s->private_data);
      *out = {};
      if (self.next == self.batches.size()) return self.error.empty() ? 0 : EIO;
      self.column = {.length = self.lengths[self.next],
                     .null_count = -1,
                     .offset = self.offsets[self.next],
                     .n_buffers = 3,
                     .n_children = 0,
                     .buffers = self.batches[self.next].data(),
                     .children = nullptr,
                     .dictionary = nullptr,
                     .release = nullptr,
                     .private_data = nullptr};
      *out = {.length = self.lengths[self.next],
              .null_count = 0,
              .offset = 0,
              .n_buffers = 1,
              .n_children = 1,
              .buffers = nullptr,
              .children = self.columns,
              .dictionary = nullptr,
              .release = [](CArray* x) { ++static_cast<Source*>(x->private_data)->released; },
              .private_data = &self};
      ++self.next;
      return 0;
    };
    made.get_last_error = [](CStream* s) -> const char* {
      return static_cast<Source*>(s->private_data)->error.c_str();
    };
    made.release = [](CStream*) {};
    return made;
  }

  std::vector<std::string> cells(const ZoneOffset& offset_at = {}) {
    CStream made = stream();
    const CsvTable table = read_arrow_stream(&made, "frame", offset_at);
    std::vector<std::string> result;
    for (std::size_t row = 0; row < table.rows(); ++row) result.emplace_back(table.cell(row, 0));
    return result;
  }
};

using Cells = std::vector<std::string>;

TEST(ArrowStream, ValuesBehindAnOffsetAndNullsOfTwoBatchesAreOneColumn) {
  const std::int32_t first[] = {9, 1, 2, 3}, second[] = {4, 5};
  const std::uint8_t valid[] = {0b1011};  // the value 2 is null
  Source source{.format = "i",
                .batches = {{valid, first, nullptr}, {nullptr, second, nullptr}},
                .lengths = {3, 2},
                .offsets = {1, 0}};
  EXPECT_EQ(source.cells(), (Cells{"1", "", "3", "4", "5"}));
  EXPECT_EQ(source.released, 3) << "two batches and the schema";
}

TEST(ArrowStream, TextComesFromOffsetsOfBothWidthsAndFromViews) {
  const char bytes[] = " abthe longest of all words";
  const std::int32_t narrow[] = {0, 3, 3};
  Source strings{.format = "u", .batches = {{nullptr, narrow, bytes}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(strings.cells(), (Cells{"ab", ""})) << "without spaces around it, as a CSV file's cells";
  const std::int64_t wide[] = {0, 3, 27};
  Source large{.format = "U", .batches = {{nullptr, wide, bytes}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(large.cells(), (Cells{"ab", "the longest of all words"}));
  struct View {
    std::int32_t size;
    char inside[4];
    std::int32_t buffer, at;
  };
  const View views[] = {{3, {'y', 'e', 's', 0}, 0, 0}, {24, {'t', 'h', 'e', ' '}, 0, 3}};
  Source in_views{.format = "vu", .batches = {{nullptr, views, bytes}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(in_views.cells(), (Cells{"yes", "the longest of all words"}));
}

TEST(ArrowStream, NumbersTruthsDecimalsAndTimesOfDayAreCells) {
  const double reals[] = {0.5, 1e300};
  Source real{.format = "g", .batches = {{nullptr, reals, nullptr}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(real.cells(), (Cells{"0.5", "1e+300"}));
  const float singles[] = {0.1F};
  Source single{.format = "f", .batches = {{nullptr, singles, nullptr}}, .lengths = {1}, .offsets = {0}};
  EXPECT_EQ(single.cells(), Cells{"0.1"});
  const std::uint8_t bits[] = {0b01};
  Source truth{.format = "b", .batches = {{nullptr, bits, nullptr}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(truth.cells(), (Cells{"true", "false"}));
  const std::int64_t decimals[] = {-1250, -1, 5, 1};  // the second is 2^64 + 5 hundredths
  Source decimal{
      .format = "d:20,2", .batches = {{nullptr, decimals, nullptr}}, .lengths = {2}, .offsets = {0}};
  EXPECT_EQ(decimal.cells(), (Cells{"-12.5", "1.8446744073709552e+17"}));
  const std::int64_t clocks[] = {45'296'000'000};
  Source clock{.format = "ttu", .batches = {{nullptr, clocks, nullptr}}, .lengths = {1}, .offsets = {0}};
  EXPECT_EQ(clock.cells(), Cells{"12:34:56"});
}

TEST(ArrowStream, WholeNumbersOf64BitsKeepEveryDigit) {
  const std::int64_t signed_ids[] = {9'007'199'254'740'993, 9'007'199'254'740'992,
                                     -9'223'372'036'854'775'807};
  const std::uint8_t valid[] = {0b101}, first_missing[] = {0b10};
  Source whole{.format = "l", .batches = {{valid, signed_ids, nullptr}}, .lengths = {3}, .offsets = {0}};
  EXPECT_EQ(whole.cells(), (Cells{"9007199254740993", "", "-9223372036854775807"}));
  const std::uint64_t small[] = {9'007'199'254'740'993, 7}, large[] = {18'446'744'073'709'551'615U, 3, 1};
  Source fits{.format = "L", .batches = {{nullptr, small, nullptr}}, .lengths = {2}, .offsets = {0}};
  CStream stream = fits.stream();
  const CsvTable table = read_arrow_stream(&stream, "frame");
  ASSERT_NE(table.typed(0), nullptr);
  EXPECT_TRUE(table.typed(0)->is_number());
  EXPECT_EQ(table.cell(0, 0), "9007199254740993");
  Source ids{.format = "L",
             .batches = {{first_missing, small, nullptr}, {valid, large, nullptr}},
             .lengths = {2, 3},
             .offsets = {0, 0}};
  EXPECT_EQ(ids.cells(), (Cells{"", "7", "18446744073709551615", "", "1"}));
}

TEST(ArrowStream, MomentsAreWrittenWithTheirZonesOffset) {
  const std::int64_t moments[] = {1'711'846'800'000, 1'711'846'800'500};  // 2024-03-31 01:00 UTC
  const auto of_zone = [&](const std::string& zone) {
    return Source{
        .format = "tsm:" + zone, .batches = {{nullptr, moments, nullptr}}, .lengths = {2}, .offsets = {0}};
  };
  EXPECT_EQ(of_zone("").cells(), (Cells{"2024-03-31 01:00:00", "2024-03-31 01:00:00.5"}));
  EXPECT_EQ(of_zone("UTC").cells()[0], "2024-03-31 01:00:00Z");
  EXPECT_EQ(of_zone("-03:30").cells()[0], "2024-03-30 21:30:00-03:30");
  const ZoneOffset summer = [](const std::string& zone, std::int64_t seconds) {
    EXPECT_EQ(zone, "Europe/Berlin");
    return seconds >= 1'711'846'800 ? 7200 : 3600;
  };
  EXPECT_EQ(of_zone("Europe/Berlin").cells(summer)[0], "2024-03-31 03:00:00+02:00");
  EXPECT_NE(message_of<DataError>([&] { of_zone("Europe/Berlin").cells(); }).find("convert them to UTC"),
            std::string::npos);
  const std::int32_t days[] = {-1};
  Source date{.format = "tdD", .batches = {{nullptr, days, nullptr}}, .lengths = {1}, .offsets = {0}};
  EXPECT_EQ(date.cells(), Cells{"1969-12-31"});
}

TEST(ArrowStream, WhatIsNoTableIsNamed) {
  Source list{.format = "+l", .batches = {}, .lengths = {}, .offsets = {}};
  EXPECT_NE(message_of<DataError>([&] { list.cells(); }).find("frame, column 'a': holds lists or structs"),
            std::string::npos);
  Source broken{.format = "l", .batches = {}, .lengths = {}, .offsets = {}, .error = "the disk is gone"};
  EXPECT_NE(message_of<DataError>([&] { broken.cells(); }).find("the disk is gone"), std::string::npos);
  EXPECT_EQ(broken.released, 1);
  CStream used{};
  EXPECT_NE(
      message_of<DataError>([&] { read_arrow_stream(&used, "frame"); }).find("somebody has read already"),
      std::string::npos);
}

TEST(ArrowStream, EveryCellCanBeAskedForInAnyOrder) {
  std::vector<std::int64_t> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  Source source{
      .format = "l", .batches = {{nullptr, values.data(), nullptr}}, .lengths = {10'000}, .offsets = {0}};
  CStream made = source.stream();
  const CsvTable table = read_arrow_stream(&made, "frame");
  const std::string_view early = table.cell(7, 0);
  for (std::size_t row = table.rows(); row-- > 0;) ASSERT_EQ(table.cell(row, 0), std::to_string(row));
  EXPECT_EQ(early, "7") << "still there";
  const CsvTable rest = table.without_rows({0, 1});
  EXPECT_EQ(rest.cell(0, 0), "2");
  EXPECT_EQ(rest.line(0), 4);
}

}  // namespace
}  // namespace ingot::data
