// What if: the arithmetic behind `stoker plan --what-if`. Pure; each formula with its source.
#pragma once

#include <cstdint>

#include "common/time.hpp"

namespace stoker::recipe {

// E[ETTR] = (1 - (u0 + dt/2) / M) / (1 + C/dt), at least 0: dt between saves, C a save's cost, u0 a
// restart's, M the time between failures of the whole run (Kokolis et al., HPCA 2025, arXiv
// 2410.21680, with N r_f = 1/M; without waiting in the queue).
double expected_ettr(Duration interval, Duration save, Duration restart, Duration mtbf);

// The chance that more than `spares` nodes are out at a time when `mean_out` are on average: what a
// Poisson distribution leaves above it (independent failures; Palm's theorem for repairs of any
// length). mean_out = nodes lost a day x days each is out.
double short_of_nodes(double mean_out, std::uint32_t spares);

// A loss that went wrong: going back now costs what is trained again and a restart. Waiting `wait`
// first costs nothing where it recovers, else `wait` more. It pays where the chance of recovery is
// above this: (1 - p)(cost + wait) < cost <=> p > wait / (cost + wait).
double even_chance(Duration cost_of_going_back, Duration wait);

}  // namespace stoker::recipe
