#include "watch/end_file.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/os/own_files.hpp"
#include "wire/lineage.hpp"

namespace stoker::watch {
namespace {

constexpr std::size_t kLargest = 64u << 10;

}  // namespace

Result<std::optional<wire::EndMark>> read_end(const std::string& run_directory,
                                              Generation generation) {
  const std::string name = fmt::format("{}/{}", wire::generation_name(generation), wire::kEndName);
  const std::string path = run_directory + "/" + name;
  STOKER_TRY(text, os::find_own_file(run_directory, name, kLargest));
  if (!text) return std::optional<wire::EndMark>{};
  STOKER_TRY(mark, from_json_text<wire::EndMark>(*text, path, {kLargest, 8}));
  if (mark.generation != generation) return fail("it names another generation", path);
  return std::optional(std::move(mark));
}

EndFile::EndFile(RunName run, std::string directory, const std::vector<core::Cursor>& cursors)
    : run_(std::move(run)), directory_(std::move(directory)), key_("end:" + run_.text) {
  told_.path = key_;
  for (const auto& cursor : cursors)
    if (cursor.path == key_) told_ = cursor;
}

void EndFile::poll(Generation newest, std::vector<core::Input>& out) {
  if (newest.value == 0) return;
  const auto mark = read_end(directory_, newest);
  if (mark && !*mark) return;
  core::EndSeen seen;
  if (mark)
    seen.mark = **mark;
  else
    seen.refused = mark.error().message();
  seen.mark.generation = newest;
  core::Cursor cursor;
  cursor.path = key_;
  cursor.line = newest.value;
  cursor.head_hash = xxh3_64(seen.refused);
  if (cursor == told_) return;
  told_ = cursor;
  out.push_back({run_, std::move(seen), {std::move(cursor)}});
}

}  // namespace stoker::watch
