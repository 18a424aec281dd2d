#include <cmath>

#include <fmt/core.h>

#include "ingot/mahjong/arena.h"

namespace ingot::mahjong {
namespace {

// The continued fraction of the regularized incomplete beta function (Lentz's method).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto kept = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / kept(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 300; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / kept(1 + even * d);
    c = kept(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / kept(1 + odd * d);
    c = kept(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-14) break;
  }
  return h;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_p(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double welch_p(const Estimate& a, double units_a, const Estimate& b, double units_b) {
  if (units_a < 2 || units_b < 2) return 1;
  const double va = std::pow(a.half_width / kHalfWidthOfError, 2),
               vb = std::pow(b.half_width / kHalfWidthOfError, 2);
  if (va + vb == 0) return a.mean == b.mean ? 1 : 0;
  const double degrees = (va + vb) * (va + vb) / (va * va / (units_a - 1) + vb * vb / (units_b - 1));
  return student_p((a.mean - b.mean) / std::sqrt(va + vb), degrees);
}

std::string format_report(const ArenaReport& report) {
  std::string text = fmt::format("{} games in {:.1f} s; ± is the 95 % confidence interval over walls\n",
                                 report.games, report.seconds);
  text += fmt::format("{:<16}{:>14}{:>16}{:>16}  {:<23}{:>13}{:>13}{:>13}{:>13}{:>8}{:>8}\n", "player",
                      "place", "points", "score", "1st  2nd  3rd  4th %", "win %", "deal-in %", "call %",
                      "riichi %", "won", "lost");
  for (const ArenaScore& s : report.entrants) {
    const auto percent = [](const Estimate& e) {
      return fmt::format("{:.1f} ±{:.1f}", 100 * e.mean, 100 * e.half_width);
    };
    text += fmt::format("{:<16}{:>14}{:>16}{:>16}  {:<23}{:>13}{:>13}{:>13}{:>13}{:>8.0f}{:>8.0f}\n", s.name,
                        fmt::format("{:.3f} ±{:.3f}", s.place.mean, s.place.half_width),
                        fmt::format("{:+.2f} ±{:.2f}", s.points.mean, s.points.half_width),
                        fmt::format("{:+.2f} ±{:.2f}", s.score.mean, s.score.half_width),
                        fmt::format("{:.1f} {:.1f} {:.1f} {:.1f}", 100 * s.places[0], 100 * s.places[1],
                                    100 * s.places[2], 100 * s.places[3]),
                        percent(s.win), percent(s.deal_in), percent(s.call), percent(s.riichi), s.win_points,
                        s.deal_in_points);
  }
  for (const PlaceTest& test : report.tests)
    text += fmt::format("{} against {}: place {:+.3f} ±{:.3f}, p = {:.2g}\n", test.first, test.second,
                        test.difference.mean, test.difference.half_width, test.p);
  if (report.sequential)
    text += fmt::format(
        "sequential test: {} after {} walls (margin {:.3g} places, error {:.3g}; log likelihood ratio "
        "{:+.2f} "
        "of ±{:.2f})\n",
        verdict_name(report.sequential->verdict), report.sequential->walls, report.sequential->options.margin,
        report.sequential->options.error, report.sequential->log_likelihood_ratio, report.sequential->bound);
  return text;
}

}  // namespace ingot::mahjong
