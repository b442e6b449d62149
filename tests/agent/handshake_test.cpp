// The handshake and the seal of frames: who gets in, and every way in which one does not.
#include "worker/agent/link/handshake.hpp"

#include <doctest/doctest.h>

#include "common/os/random.hpp"
#include "worker/agent/link/refusals.hpp"
#include "worker/agent/link/seal.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

const std::string kSecret(64, 's');
const Instant kBegin = Instant{} + 1h;

Hello hello_of(const std::string& node) {
  Hello hello;
  hello.build = STOKER_VERSION;
  hello.node = NodeName(node);
  hello.nonce = "0123";
  return hello;
}
Frame shake(std::string content) {
  return {'h', std::move(content)};
}
LeadHandshake lead_with(char nonce, const std::string& secret = kSecret) {
  return {secret, std::string(kNonceBytes, nonce), kBegin};
}
std::string why(Result<std::string> step) {
  return step ? "" : step.error().what;
}

}  // namespace

TEST_CASE(
    "handshake: both know the secret -> both are proven, with the same keys; it never travels") {
  FollowerHandshake follower(kSecret, hello_of("n02"));
  LeadHandshake lead = lead_with('a');
  const std::string knock = follower.knock();
  const auto challenge = lead.take(shake(knock), kBegin + 1s);
  REQUIRE(challenge);
  CHECK(lead.knocked());
  const auto answer = follower.take(shake(*challenge));
  REQUIRE(answer);
  const auto done = lead.take(shake(*answer), kBegin + 2s);
  REQUIRE(done);
  CHECK(done->empty());
  CHECK(lead.hello().node.text == "n02");
  CHECK(lead.keys().to_lead == follower.keys().to_lead);
  CHECK(lead.keys().to_follower == follower.keys().to_follower);
  CHECK(lead.keys().to_lead != lead.keys().to_follower);
  for (const std::string& said : {knock, *challenge, *answer})
    CHECK(said.find(kSecret) == std::string::npos);
}

TEST_CASE("handshake: another secret, one flipped bit -> refused before any JSON is read") {
  LeadHandshake lead = lead_with('a');
  CHECK(why(lead.take(shake(FollowerHandshake("x", hello_of("n02")).knock()), kBegin)) ==
        "wrong secret");
  const std::string good = FollowerHandshake(kSecret, hello_of("n02")).knock();
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    CHECK(why(lead.take(shake(bad), kBegin)) == "wrong secret");
  }
  CHECK(why(lead.take(shake(std::string(kMacBytes, 'x')), kBegin)) == "not of this protocol");
  CHECK(why(lead.take({'j', good}, kBegin)) == "not of this protocol");
}

TEST_CASE("handshake: an old knock and answer sent again -> the lead's nonce is another: refused") {
  FollowerHandshake follower(kSecret, hello_of("n02"));
  LeadHandshake first = lead_with('a'), second = lead_with('b');
  const auto answer = follower.take(shake(*first.take(shake(follower.knock()), kBegin)));
  REQUIRE(answer);
  REQUIRE(second.take(shake(follower.knock()), kBegin));  // a knock proves little
  CHECK(why(second.take(shake(*answer), kBegin)) == "wrong answer");
}

TEST_CASE("handshake: a challenge of another session, of who does not know the secret -> refused") {
  FollowerHandshake old(kSecret, hello_of("n02"));
  Hello fresh = hello_of("n02");
  fresh.nonce = "4567";
  FollowerHandshake follower(kSecret, fresh);
  LeadHandshake lead = lead_with('a');
  const auto challenge = lead.take(shake(old.knock()), kBegin);
  REQUIRE(challenge);
  CHECK_FALSE(follower.take(shake(*challenge)));
  CHECK_FALSE(follower.take(shake(std::string(kMacBytes + kNonceBytes, 'x'))));
  CHECK_FALSE(follower.take(shake("")));
  CHECK_FALSE(follower.take({'j', *challenge}));
  CHECK_FALSE(follower.take(shake(follower.knock())));  // our own words come back
}

TEST_CASE("handshake: later than the limit -> refused, also with the right words") {
  FollowerHandshake follower(kSecret, hello_of("n02"));
  LeadHandshake lead = lead_with('a');
  CHECK_FALSE(lead.late(kBegin + kHelloTime));
  CHECK(lead.late(kBegin + kHelloTime + 1ns));
  CHECK(why(lead.take(shake(follower.knock()), kBegin + kHelloTime + 1ns)) == "late");
}

TEST_CASE("handshake: an older protocol or another build -> refused by name") {
  for (const bool protocol : {true, false}) {
    Hello hello = hello_of("n02");
    if (protocol)
      hello.protocol = 1;
    else
      hello.build = "0.0.1";
    LeadHandshake lead = lead_with('a');
    CHECK(why(lead.take(shake(FollowerHandshake(kSecret, hello).knock()), kBegin)) ==
          "another version of stoker");
  }
  LeadHandshake lead = lead_with('a');  // as the protocol before this one did
  CHECK(why(lead.take({'j', R"({"kind":"hello","secret":")" + kSecret + "\"}"}, kBegin)) ==
        "not of this protocol");
}

TEST_CASE("handshake: frames of who is not known -> 4 KiB at most") {
  FrameReader reader(kHelloLimit);
  const std::string largest = encode_frame('h', std::string(kHelloLimit - 1, 'x'));
  REQUIRE(reader.feed(largest));
  REQUIRE(reader.next());
  CHECK_FALSE(reader.feed(encode_frame('h', std::string(kHelloLimit, 'x')).substr(0, 5)));
  FrameReader known(kHelloLimit);
  known.set_limit(kFrameLimit);
  CHECK(known.feed(encode_frame('h', std::string(kHelloLimit, 'x')).substr(0, 5)));
}

namespace {
Frame sealed(Seal& seal, const std::string& content, char kind = 'j') {
  return {kind, content + seal.close(kind, content)};
}
}  // namespace

TEST_CASE("seal: frames in their order -> open; changed, repeated, left out, reordered -> do not") {
  Seal out("key"), in("key");
  Frame one = sealed(out, "one"), two = sealed(out, ""), three = sealed(out, "three", 'l');
  const Frame first = one;
  REQUIRE(in.open(one));
  CHECK(one.content == "one");
  {
    Seal copy = in;
    Frame again = first;
    CHECK_FALSE(copy.open(again));
  }
  {
    Seal copy = in;
    Frame early = three;
    CHECK_FALSE(copy.open(early));
  }
  {
    Seal copy = in;
    Frame other = two;
    other.kind = 'l';
    CHECK_FALSE(copy.open(other));
  }
  {
    Seal copy = in;
    Frame longer = two;
    longer.content.insert(0, 1, 'x');
    CHECK_FALSE(copy.open(longer));
  }
  REQUIRE(in.open(two));
  CHECK(two.content.empty());
  REQUIRE(in.open(three));
  CHECK(three.content == "three");
  Frame bare{'j', "{}"};
  CHECK_FALSE(in.open(bare));
}

TEST_CASE("seal: other parts or another key -> another MAC") {
  CHECK(mac_of("k", {"ab", "c"}) != mac_of("k", {"a", "bc"}));
  CHECK(mac_of("k", {"abc"}) != mac_of("k", {"abc", ""}));
  CHECK(mac_of("k", {"abc"}) == mac_of("k", {"abc"}));
  CHECK(mac_of("k", {"abc"}) != mac_of("l", {"abc"}));
  CHECK(os::random_bytes(32) != os::random_bytes(32));
}

TEST_CASE("refusals: a flood -> one notice a minute with counts, and evidence for a while") {
  Refusals refusals;
  CHECK_FALSE(refusals.take_notice(kBegin));
  refusals.add("wrong secret", "10.0.0.1", kBegin);
  const auto first = refusals.take_notice(kBegin + 300ms);
  REQUIRE(first);
  CHECK(*first ==
        "connections refused at the agents' port: 1 within 1 s (wrong secret: 1), the newest from "
        "10.0.0.1; the training goes on");
  CHECK_FALSE(refusals.flood(kBegin));
  Instant now = kBegin;
  int notices = 0;
  for (int i = 0; i < 30000; ++i) {
    now += 10ms;
    refusals.add(i % 2 == 0 ? "late" : "wrong secret", "10.0.0.2", now);
    if (refusals.take_notice(now)) ++notices;
  }
  CHECK(notices == 4);  // in five minutes, the first one was a moment before
  CHECK(refusals.flood(now));
  CHECK_FALSE(refusals.flood(now + Refusals::kFloodWindow));
  Refusals few;
  for (int i = 0; i < 1000; ++i) {
    now += 1s;
    few.add("late", "10.0.0.2", now);
    CHECK_FALSE(few.flood(now));
  }
}
