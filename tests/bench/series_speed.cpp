// series_speed: how long /series takes over a history of a million iterations, each a point of its
// own. Prints one JSON object.
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

#include "common/time.hpp"
#include "daemon/http/run_api.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

constexpr std::uint64_t kIterations = 1'000'000;

SiteView site(std::size_t most_points) {
  SiteView view;
  wire::StatusDocument run;
  run.run = "long";
  view.runs = {run};
  auto history = std::make_shared<SharedHistory>(RunName("long"), most_points);
  core::JournalRow row;
  row.event.run = RunName("long");
  core::Digest digest;
  for (std::uint64_t i = 1; i <= kIterations; ++i) {
    row.seq = Sequence(i);
    row.event.wall = WallTime(std::chrono::seconds(1'700'000'000 + i));
    digest.last.iteration_max = Iteration(i);
    const double loss = 2 + 1e-6 * static_cast<double>(i * 7919 % 10007);
    digest.losses = {1, loss, loss, loss, Iteration(i), 0, 0, 0, 0, {}};
    row.event.body = digest;
    history->take(row);
  }
  view.parts["long"].history = std::move(history);
  return view;
}

struct Timed {
  double ms = 0;
  std::size_t bytes = 0;
};

// The median of several.
Timed time_series(const SiteView& view) {
  const auto request = *parse_target("/api/v1/runs/long/series?metric=loss&points=600");
  std::vector<double> taken;
  std::size_t bytes = 0;
  for (int i = 0; i < 9; ++i) {
    const Instant began = monotonic_now();
    const Page page = render_page(view, request);
    taken.push_back(to_seconds(monotonic_now() - began) * 1e3);
    bytes = page.body.size();
  }
  std::sort(taken.begin(), taken.end());
  return {taken[taken.size() / 2], bytes};
}

}  // namespace

int main() {
  const Timed whole = time_series(site(2 * kIterations));
  const Timed folded = time_series(site(100'000));
  std::printf("%s\n",
              fmt::format("{{\"ms\":{:.2f},\"bytes\":{},\"folded_ms\":{:.2f},"
                          "\"history_mb\":{:.0f}}}",
                          whole.ms, whole.bytes, folded.ms,
                          static_cast<double>(kIterations * sizeof(core::HistoryPoint)) / 1e6)
                  .c_str());
}
