// JsonItems: one list of a JSON answer, an item at a time, while the answer arrives: a queue of
// 20,000 jobs is a hundred megabytes, and of each job a dozen short values are wanted. Only the
// structure is followed, 64 bytes at a time inside an item; a value is parsed when it is asked for.
// Memory: one item, and what stands outside the list.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"

namespace stoker::slurm {

class JsonItem {
 public:
  // The value of a key as it stands in the text; empty: no such key. Of a repeated key the first.
  [[nodiscard]] std::string_view raw(std::string_view key) const;
  // A string without its quotes; empty: no string, or null.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view key) const;
  [[nodiscard]] Json value(std::string_view key) const;  // null: no such key, or not readable
  [[nodiscard]] std::string_view whole() const { return text_; }

 private:
  friend class JsonItems;
  struct Member {  // places in the text
    std::uint32_t colon, end;
  };
  std::string text_;
  std::vector<Member> members_;
};

class JsonItems {
 public:
  using Take = std::function<Status(const JsonItem&)>;
  // `list`: the key, at the top, of a list of objects; each goes to `take`, whose error ends it.
  JsonItems(std::string list, Take take) : list_(std::move(list)), take_(std::move(take)) {}

  // The next bytes. After an error the answer is no use any more.
  Status feed(std::string_view part);
  // The document without the list's items. Error: it was cut off, or is no such document.
  Result<Json> finish();
  [[nodiscard]] std::size_t items() const { return items_; }

 private:
  Status inside_item(const char*& at, const char* end);  // to its end, or all that there is
  Status outside_strings(const char* at);                // one character
  Status open(const char* at);
  Status close(const char* at);
  Status between_items(const char* at);
  void begin_string(const char* at);
  void end_string(const char* at);
  void begin_value(const char* at);
  void end_member(const char* at);
  void keep(std::string& where, const char* to);             // what was fed since `kept_`
  [[nodiscard]] std::uint32_t place(const char* at) const {  // in the item
    return static_cast<std::uint32_t>(item_.text_.size() + static_cast<std::size_t>(at - kept_));
  }
  static constexpr std::size_t kItemDepth = 3;

  std::string list_;
  Take take_;
  std::string nesting_;  // the open brackets
  std::string outer_;    // what stands outside the items
  const char* kept_ = nullptr;
  std::size_t string_at_ = 0, string_end_ = 0;  // the last string at the top, in outer_
  std::string key_;                             // the last key at the top
  JsonItem item_;
  JsonItem::Member member_{};
  bool in_value_ = false;  // of a member
  bool in_string_ = false, escaped_ = false, in_list_ = false, in_item_ = false;
  bool was_list_ = false, comma_ = false, done_ = false;
  std::size_t items_ = 0;
};

}  // namespace stoker::slurm
