#include "ingot/base/report.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"

namespace ingot {
namespace {

/// The data that the page's script reads.
nlohmann::json data_of(const std::string& page) {
  const std::string start = "<script id=\"report-data\" type=\"application/json\">";
  const std::size_t from = page.find(start) + start.size();
  return parse_json<nlohmann::json>(page.substr(from, page.find("</script>", from) - from), "the test");
}

/// A run such as the trainer reports, so that a person can look at one: INGOT_REPORT_EXAMPLE=file writes it.
Report example() {
  Report report;
  report.title = "A small Llama learns to write";
  report.subtitle = "3.4M parameters · 600 steps of 4096 tokens · 2 threads";
  report.figures = {{"validation loss", "2.184", "bigram baseline 2.913"},
                    {"perplexity", "8.88", "per token"},
                    {"throughput", "14.2k tok/s", "median"},
                    {"arithmetic", "231 GFLOP/s", "72 % of the measured limit"},
                    {"time", "2m 53s", "on 2 cores"}};
  ReportSeries train{.name = "training", .x = {}, .y = {}, .smooth = true};
  ReportSeries valid{.name = "validation", .x = {}, .y = {}};
  ReportSeries baseline{.name = "bigram baseline", .x = {0, 600}, .y = {2.913, 2.913}, .dashed = true};
  ReportSeries rate{.name = "learning rate", .x = {}, .y = {}};
  ReportSeries norm{.name = "gradient norm", .x = {}, .y = {}, .smooth = true};
  ReportSeries speed{.name = "tokens/s", .x = {}, .y = {}, .smooth = true};
  ReportSeries flops{.name = "% of limit", .x = {}, .y = {}, .right_axis = true};
  for (int step = 0; step <= 600; ++step) {
    const double s = step, noise = std::sin(s * 12.9898) * 43758.5453;
    const double wobble = noise - std::floor(noise) - 0.5;
    const double loss = 2.05 + 4.3 * std::exp(-s / 60) + 0.9 * std::exp(-s / 260);
    train.x.push_back(s);
    train.y.push_back(loss + wobble * 0.28);
    if (step % 25 == 0) {
      valid.x.push_back(s);
      valid.y.push_back(loss + 0.06);
    }
    rate.x.push_back(s);
    rate.y.push_back(step < 50 ? 1e-3 * s / 50 : 1e-4 + 4.5e-4 * (1 + std::cos((s - 50) / 550 * 3.14159265)));
    norm.x.push_back(s);
    norm.y.push_back(0.3 + 2.5 * std::exp(-s / 40) + 0.15 * (wobble + 0.5) + (step == 333 ? 2.1 : 0));
    speed.x.push_back(s);
    speed.y.push_back(14200 + 300 * wobble - (step % 100 == 0 ? 2500 : 0));
    flops.x.push_back(s);
    flops.y.push_back(72 + 1.5 * wobble - (step % 100 == 0 ? 13 : 0));
  }
  report.charts = {
      {.title = "Loss",
       .x_label = "step",
       .y_label = "nats per token",
       .right_label = {},
       .series = {train, valid, baseline}},
      {.title = "Learning rate", .x_label = "step", .y_label = {}, .right_label = {}, .series = {rate}},
      {.title = "Gradient norm",
       .x_label = "step",
       .y_label = {},
       .right_label = {},
       .log_y = true,
       .series = {norm}},
      {.title = "Throughput",
       .x_label = "step",
       .y_label = "tokens/s",
       .right_label = "%",
       .series = {speed, flops}}};
  report.samples = {
      {0, "validation loss 7.26", "The design", "qJ)w8\x01 tte{{_ ae;o< </script><b>n"},
      {150, "validation loss 2.94", "The design", " of the the tensor is in the kernel and the the\n"},
      {600, "validation loss 2.18", "The design",
       " of a kernel is one place: a view, a stream and the\nshape that it writes. Nothing is "
       "allocated there, and what\nfollows is a test that fails when the sum is wrong.\n"}};
  report.config = {{"model", "llama"},
                   {"hidden_size", "256"},
                   {"num_hidden_layers", "6"},
                   {"num_attention_heads", "8"},
                   {"num_key_value_heads", "2"},
                   {"learning_rate", "0.001"},
                   {"lr_scheduler_type", "cosine"},
                   {"weight_decay", "0.1"},
                   {"sequence_len", "256"},
                   {"seed", "1"}};
  report.environment = {
      {"version", "0.1.0"}, {"compiler", "g++ 12.2"}, {"threads", "2"}, {"matmul limit", "320 GFLOP/s"}};
  return report;
}

TEST(Report, IsOneFileThatAsksForNothingElse) {
  const std::string page = render_report(example());
  EXPECT_NE(page.find("Chart.js v3"), std::string::npos);
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  EXPECT_EQ(page.find("{{title}}"), std::string::npos);
  EXPECT_EQ(page.find("/*{{"), std::string::npos);
  EXPECT_LT(page.size(), 500'000U);
  if (const char* path = std::getenv("INGOT_REPORT_EXAMPLE")) write_report(path, example());
}

TEST(Report, CarriesItsDataUnharmedWhateverASampleSays) {
  Report report = example();
  report.title = "<b>&amp; </script>";
  report.samples.push_back({7, "", "/*{{script}}*/", "</script><!-- {{title}} {\"data\":0} \xff"});
  const std::string page = render_report(report);
  const auto data = data_of(page);
  EXPECT_EQ(data["title"], report.title);
  EXPECT_EQ(data["samples"][3]["prompt"], "/*{{script}}*/");
  EXPECT_EQ(data["samples"][3]["text"], "</script><!-- {{title}} {\"data\":0} \xEF\xBF\xBD");
  EXPECT_NE(page.find("<title>&lt;b&gt;&amp;amp; &lt;/script&gt;</title>"), std::string::npos);
  EXPECT_EQ(data["charts"][0]["series"][1]["x"].size(), 25U);
}

TEST(Report, WhatIsNotFiniteIsAGap) {
  Report report;
  report.charts = {{.title = "t",
                    .x_label = {},
                    .y_label = {},
                    .right_label = {},
                    .series = {{"s", {0, 1, 2, 3}, {1.23456789, std::nan(""), INFINITY, 1e-300}}}}};
  const auto y = data_of(render_report(report))["charts"][0]["series"][0]["y"];
  EXPECT_EQ(y[0], 1.23457);
  EXPECT_TRUE(y[1].is_null());
  EXPECT_TRUE(y[2].is_null());
  EXPECT_NEAR(y[3].get<double>() / 1e-300, 1, 1e-5);
}

TEST(Report, NumbersKeepTheDigitsThatTheAxisShows) {
  ReportSeries series{.name = "s", .x = {}, .y = {}};
  for (int i = 0; i < 20; ++i) {
    series.x.push_back(i);
    series.y.push_back(1e9 + std::sin(i));
  }
  ReportSeries right{.name = "r", .x = {0, 1}, .y = {1.23456789, 1e6}, .right_axis = true};
  Report report;
  report.charts = {
      {.title = "t", .x_label = {}, .y_label = {}, .right_label = {}, .series = {series, right}}};
  const auto drawn = data_of(render_report(report))["charts"][0]["series"];
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(drawn[0]["y"][i].get<double>(), series.y[i], 2e-5) << i;
  EXPECT_EQ(drawn[1]["y"][0], 1.23457);
}

TEST(Report, CarriesTables) {
  Report report;
  report.tables = {{.title = "Errors", .columns = {"", "MSE"}, .rows = {{"naive", "0.5"}}}};
  const auto table = data_of(render_report(report))["tables"][0];
  EXPECT_EQ(table["columns"][1], "MSE");
  EXPECT_EQ(table["rows"][0][0], "naive");
}

TEST(Report, SeriesOfUnequalLengthsAreRefused) {
  Report report;
  report.charts = {
      {.title = "t", .x_label = {}, .y_label = {}, .right_label = {}, .series = {{"s", {0, 1}, {1}}}}};
  EXPECT_THROW(render_report(report), Error);
}

TEST(Report, ThinningKeepsEndsSpikesAndOrder) {
  ReportSeries series{.name = "s", .x = {}, .y = {}};
  for (int i = 0; i < 50'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 31'415 ? 100.0 : std::sin(i * 1e-3));
  }
  thin_out(series, 1000);
  ASSERT_EQ(series.x.size(), 1000U);
  EXPECT_EQ(series.x.front(), 0);
  EXPECT_EQ(series.x.back(), 49'999);
  EXPECT_NE(std::find(series.x.begin(), series.x.end(), 31'415.0), series.x.end());
  EXPECT_TRUE(std::is_sorted(series.x.begin(), series.x.end()));
  EXPECT_EQ(std::adjacent_find(series.x.begin(), series.x.end()), series.x.end());

  ReportSeries small{.name = "s", .x = {1, 2}, .y = {1, 2}};
  thin_out(small, 1000);
  EXPECT_EQ(small.x.size(), 2U);
}

}  // namespace
}  // namespace ingot
