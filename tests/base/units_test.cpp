#include "ingot/base/units.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

TEST(Units, BytesKeepThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(std::uint64_t{25} << 30), "25.0 GiB");
  EXPECT_EQ(human_bytes(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Units, SizesAreReadInDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("100", "k"), 100U);
  EXPECT_EQ(parse_bytes("5GB", "k"), 5'000'000'000U);
  EXPECT_EQ(parse_bytes("1.5 gib", "k"), 1'610'612'736U);
  for (const char* bad : {"", "GB", "5XB", "-1MB", "1e30", "nan"}) {
    EXPECT_THROW(parse_bytes(bad, "k"), InvalidConfig) << bad;
  }
}

TEST(Units, CountsRoundIntoTheNextUnitAndNotTo1000) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(0.5), "0.50");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(999'999), "1.00M");
  EXPECT_EQ(human_count(124'439'808), "124M");
  EXPECT_EQ(human_count(7e9), "7.00B");
  EXPECT_EQ(human_count(-12345), "-12.3k");
  EXPECT_EQ(human_count(std::nan("")), "?");
}

TEST(Units, DurationsChangeUnitWhereAReaderWould) {
  EXPECT_EQ(human_duration(0), "0 us");
  EXPECT_EQ(human_duration(850e-6), "850 us");
  EXPECT_EQ(human_duration(0.012), "12.0 ms");
  EXPECT_EQ(human_duration(3.21), "3.2 s");
  EXPECT_EQ(human_duration(59.97), "1m 00s");
  EXPECT_EQ(human_duration(72), "1m 12s");
  EXPECT_EQ(human_duration(7500), "2h 05m");
  EXPECT_EQ(human_duration(90000 * 3), "3d 03h");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "?");
}

}  // namespace
}  // namespace ingot
