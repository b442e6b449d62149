#include "cli/init/draft.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/printable.hpp"

namespace stoker::cli::init {
namespace {

constexpr std::size_t kLineLength = 100;

// The sections of RUN.yaml, in the order in which they are written.
constexpr std::array<std::string_view, 6> kSections{"",      "scheduler",   "train",
                                                    "watch", "checkpoints", "goodput"};

std::string section_of(const std::string& key) {
  const auto dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

// One value with its comment: behind it, or above it where the line would be too long.
std::string line_of(const Entry& entry) {
  const std::string indent = section_of(entry.key).empty() ? "" : "  ";
  const std::string name = entry.key.substr(entry.key.find('.') + 1);
  const std::string value = fmt::format("{}{}: {}", indent, name, entry.value);
  const std::string comment = fmt::format("# {}: {}", name_of(entry.how), printable(entry.reason));
  if (value.size() + comment.size() + 3 <= kLineLength)
    return fmt::format("{}   {}\n", value, comment);
  return fmt::format("{}{}\n{}\n", indent, comment, value);
}

}  // namespace

const Entry* Draft::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

void Draft::put(std::string key, std::string value, How how, std::string reason) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
  entries.push_back({std::move(key), std::move(value), how, std::move(reason)});
}

std::string yaml_text(const std::string& text) {
  constexpr std::array<std::string_view, 9> kWords{"true", "false", "null", "yes", "no",
                                                   "on",   "off",   "y",    "n"};
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-';
  };
  std::string lower = text;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool begins = !text.empty() && (text[0] == '/' || (lower[0] >= 'a' && lower[0] <= 'z'));
  const bool bare = begins && std::all_of(text.begin(), text.end(), plain) &&
                    std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
  return bare ? text : dump_json(Json(text));
}

std::string yaml_list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + yaml_text(text);
  return "[" + out + "]";
}

std::string draft_yaml(const Draft& draft, const Knowledge::Rows& not_known) {
  std::string out =
      "# Made by `stoker init`. Each value says where it comes from: detected, answered or "
      "assumed.\n# `stoker check` counts a value as assumed as long as its comment says so.\n";
  for (const std::string& note : draft.notes) out += fmt::format("# note: {}\n", printable(note));
  for (const std::string_view section : kSections) {
    std::string lines;
    for (const Entry& entry : draft.entries)
      if (section_of(entry.key) == section) lines += line_of(entry);
    if (lines.empty()) continue;
    out += section.empty() ? lines : fmt::format("\n{}:\n{}", section, lines);
  }
  if (!not_known.empty()) out += "\n# Not known:\n";
  for (const auto& [what, text] : not_known)
    out += fmt::format("# * {}: {}\n", what, printable(text));
  return out;
}

}  // namespace stoker::cli::init
