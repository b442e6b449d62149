// The texts: init.cc of NCCL ("comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx"; before
// 2.17 without nvmlDev), ProcessGroupNCCL.cpp of PyTorch ("Rank 3] using GPU 3 to perform
// barrier"), nvidia-smi's table.
#include "diagnose/cause/gpu_places.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>

#include "diagnose/input/line_origin.hpp"
#include "diagnose/parse/kernel_line.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kMostPlaces = 65'536, kMostTables = 8192, kTableLines = 256;
constexpr auto npos = std::string_view::npos;

template <class T>
std::optional<T> number_at(std::string_view text, int base = 10) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> number_behind(std::string_view line, std::string_view word, int base = 10) {
  const auto at = line.find(word);
  if (at == npos) return std::nullopt;
  return number_at<T>(line.substr(at + word.size()), base);
}

// NCCL packs the digits of "0000:cb:00.0" into one number.
std::string pci_of_bus_id(std::uint64_t id) {
  return fmt::format("{:04x}:{:02x}:{:02x}", id >> 20 & 0xffff, id >> 12 & 0xff, id >> 4 & 0xff);
}

std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

bool same_node(std::string_view a, std::string_view b) {
  return a.empty() || b.empty() || short_name(a) == short_name(b);
}

}  // namespace

void GpuPlaces::keep(GpuPlace place) {
  if (found_.size() < kMostPlaces) found_.insert(std::move(place));
}

void GpuPlaces::nccl_line(std::string_view line) {
  const auto bus = number_behind<std::uint64_t>(line, " busId ", 16);
  const auto rank = number_behind<std::uint32_t>(line, " rank ");
  const auto size = number_behind<std::uint32_t>(line, " nranks ");
  if (!bus || !rank || !size || line.find("NCCL INFO") == npos) return;
  const LineOrigin origin = read_origin(line);
  GpuPlace place;
  place.node = origin.node.empty() ? node_ : origin.node;
  place.pci = pci_of_bus_id(*bus);
  place.index = number_behind<std::uint32_t>(line, " cudaDev ");
  place.rank = origin.rank ? origin.rank : rank_ ? rank_ : rank;
  place.communicator = origin.rank || rank_ ? 0 : *size;
  keep(std::move(place));
}

void GpuPlaces::torch_line(std::string_view line, std::size_t at) {
  const auto index = number_at<std::uint32_t>(line.substr(at + 9));
  const auto word = line.substr(0, at).rfind("Rank ");
  if (!index || word == npos) return;
  const LineOrigin origin = read_origin(line);
  GpuPlace place;
  place.node = origin.node.empty() ? node_ : origin.node;
  place.index = index;
  place.rank = number_at<std::uint32_t>(line.substr(word + 5));
  if (place.rank) keep(std::move(place));
}

// "|   3  NVIDIA H100 80GB HBM3   On  | 00000000:CB:00.0 Off |    0 |", perhaps behind a label.
void GpuPlaces::table(std::string_view rest) {
  for (std::size_t n = 0; n < kTableLines && !rest.empty(); ++n) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto first = line.find('|');
    if (line.find("Processes:") != npos) return;
    if (first == npos) continue;
    const auto second = line.find('|', first + 1);
    if (second == npos) continue;
    const auto index = number_at<std::uint32_t>(line.substr(first + 1, second - first - 1));
    std::string_view bus = line.substr(second + 1);
    while (bus.starts_with(' ')) bus.remove_prefix(1);
    const auto pci = normal_pci(bus.substr(0, bus.find(' ')));
    if (!index || *index > 255 || !pci) continue;
    const LineOrigin origin = read_origin(line);
    keep({origin.node.empty() ? node_ : origin.node, *pci, index, std::nullopt, 0});
  }
}

void GpuPlaces::line(std::string_view text, std::string_view behind) {
  if (text.find(" busId ") != npos) nccl_line(text);
  if (const auto at = text.find("using GPU "); at != npos) torch_line(text, at);
  if (text.find("Bus-Id") != npos && tables_++ < kMostTables) table(behind);
}

std::optional<std::uint32_t> rank_on_gpu(const std::vector<GpuPlace>& places, std::string_view node,
                                         std::string_view pci) {
  if (pci.empty()) return std::nullopt;
  std::uint32_t largest = 0;
  for (const GpuPlace& place : places) largest = std::max(largest, place.communicator);
  // In smaller communicators ranks have other numbers, and the same ones on every node.
  const auto world = [&](const GpuPlace& place) { return place.communicator == largest; };
  std::map<std::uint32_t, std::set<std::pair<std::string, std::string>>> claims;
  for (const GpuPlace& place : places)
    if (place.rank && place.communicator > 0 && world(place))
      claims[*place.rank].emplace(short_name(place.node), place.pci);
  std::set<std::uint32_t> labelled, told;
  std::set<std::string> nodes;
  for (const GpuPlace& place : places) {
    if (place.pci != pci || !same_node(place.node, node)) continue;
    nodes.emplace(short_name(place.node));
    if (place.rank && place.communicator == 0) labelled.insert(*place.rank);
    if (place.rank && place.communicator > 0 && world(place) && claims[*place.rank].size() == 1)
      told.insert(*place.rank);
    if (place.rank || !place.index) continue;
    for (const GpuPlace& user : places)
      if (user.pci.empty() && user.index == place.index && same_node(user.node, place.node) &&
          same_node(user.node, node))
        told.insert(*user.rank);
  }
  if (node.empty() && nodes.size() > 1) return std::nullopt;
  if (labelled.size() == 1) return *labelled.begin();
  if (labelled.empty() && told.size() == 1) return *told.begin();
  return std::nullopt;
}

}  // namespace stoker::diagnose
