// Overloaded{lambdas...}: one visitor for std::visit.
#pragma once

namespace stoker {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace stoker
