#include "ingot/forecast/table/alike_dates.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ingot::forecast {
namespace {

TEST(AlikeDates, GiveForEveryRowWhatItGivesAlone) {
  const std::vector<std::string> texts{"2016-07-01",
                                       "2016-02-30",
                                       "2016-02-29",
                                       "2015-02-29",
                                       "2016-13-01",
                                       "2016-1-1",
                                       "0001-01-01",
                                       "2016-07-01 13:00",
                                       "2016-07-01T13:00",
                                       "2016-07-01 24:00",
                                       "2016-07-01 24:30",
                                       "2016-07-01 13:60",
                                       "2016-07-01 13:00:59",
                                       "2016-07-01 13:00:60",
                                       "2016-07-01T13:00:00.000000",
                                       "2016-07-01T13:00:00.500000",
                                       "2016-07-01T13:00:00.999999",
                                       "2016-07-01T13:00:00.",
                                       "2016-07-01T13:00:00Z",
                                       "2016-07-01T13:00+02",
                                       "2016-07-01 1:00 PM",
                                       "2016-07-01x13:00",
                                       "2016/07/01",
                                       "07-01-2016",
                                       "1 Jul 2016",
                                       "20160701",
                                       "17",
                                       "-16-07-01",
                                       ""};
  for (const DateOrder order : {DateOrder::year_first, DateOrder::month_first, DateOrder::day_first}) {
    for (const std::string& first : texts) {
      AlikeDates dates;
      DateStyle unused;
      dates.parse(first, &unused, order, 0);
      for (const std::string& text : texts) {
        DateStyle style, alone;
        EXPECT_EQ(dates.parse(text, &style, order, 0), parse_moment(text, &alone, order))
            << first << ", " << text;
        EXPECT_EQ(style.format(), alone.format()) << first << ", " << text;
        EXPECT_EQ(style.rounded, alone.rounded) << first << ", " << text;
        EXPECT_EQ(style.number, alone.number) << first << ", " << text;
      }
    }
  }
}

}  // namespace
}  // namespace ingot::forecast
