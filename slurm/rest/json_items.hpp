// JsonItems: one list of a JSON answer, an item at a time, while the answer arrives: a queue of
// 20,000 jobs is a hundred megabytes, and of each job a dozen short values are wanted. Only the
// structure is followed, 64 bytes at a time inside an item; a value is parsed when it is asked for.
// Every user of the cluster has a say in it: a job's arguments are in its item, six bytes for each
// that is no letter. So of a long string only the beginning is kept, and one item that is too large
// even so is left out when it is another's. Memory: one item, and what stands outside the list.
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
  // A string without its quotes, of a long one its beginning; empty: no string, or null.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view key) const;
  [[nodiscard]] Json value(std::string_view key) const;  // null: no such key, or not readable
  // Whether a string in it was too long to be kept whole.
  [[nodiscard]] bool is_cut(std::string_view key) const;
  [[nodiscard]] std::string_view whole() const { return text_; }

 private:
  friend class JsonItems;
  struct Member {  // places in the text
    std::uint32_t colon = 0, end = 0;
    bool cut = false;
  };
  [[nodiscard]] const Member* find(std::string_view key) const;
  std::string text_;
  std::vector<Member> members_;
};

class JsonItems {
 public:
  using Take = std::function<Status(const JsonItem&)>;
  using IsAnothers = std::function<bool(const JsonItem&)>;
  static constexpr std::size_t kLongestString = 128u << 10;
  static constexpr std::size_t kLargestItem = 4u << 20;
  // `list`: the key, at the top, of a list of objects; each goes to `take`, whose error ends it.
  // `is_anothers`: asked of an item that is too large, with only a part of its members. True: it is
  // left out; else, and where none is given, it is an error.
  JsonItems(std::string list, Take take, IsAnothers is_anothers = {})
      : list_(std::move(list)), take_(std::move(take)), is_anothers_(std::move(is_anothers)) {}

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
  void keep(std::string& where, const char* to);  // what was fed since `kept_`
  void cut_long_string(const char* at);
  void end_item_string(const char* quote);
  Status shrink();  // an item that is too large
  Status take_item();
  [[nodiscard]] std::uint32_t place(const char* at) const {  // in the item
    return static_cast<std::uint32_t>(item_.text_.size() + static_cast<std::size_t>(at - kept_));
  }
  static constexpr std::size_t kItemDepth = 3;

  std::string list_;
  Take take_;
  IsAnothers is_anothers_;
  std::string nesting_;  // the open brackets
  std::string outer_;    // what stands outside the items
  const char* kept_ = nullptr;
  std::size_t string_at_ = 0, string_end_ = 0;  // the last string at the top, in outer_
  std::string key_;                             // the last key at the top
  JsonItem item_;
  JsonItem::Member member_{};
  std::uint32_t string_from_ = 0;              // of a string that is open, in the item
  bool in_value_ = false;                      // of a member
  bool cutting_ = false;                       // to the end of the string nothing is kept
  bool lost_ = false;                          // to the end of the member nothing is kept
  bool too_large_ = false, anothers_ = false;  // the item
  bool in_string_ = false, escaped_ = false, in_list_ = false, in_item_ = false;
  bool was_list_ = false, comma_ = false, done_ = false;
  std::size_t items_ = 0;
};

}  // namespace stoker::slurm
