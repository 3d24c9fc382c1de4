// The only file that knows JavaScript: converts options, keeps the open handles by number, and reports their
// endings. Order matters (fact 18): the thread-safe function is made and unreferenced, then the raw clean-up
// hook is added, and only then does any thread start; the hook stops and joins them all while the function
// still lives.
#include <malloc.h>
#include <napi.h>
#include <openssl/crypto.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "audio_source.h"
#include "encoder.h"
#include "fault.h"
#include "input_sink.h"
#include "plane.h"
#include "session.h"
#include "source.h"

namespace {

using svc::Fault;

/// Raised with every change of what native/index.ts calls.
constexpr int kAbi = 2;

struct SessionHandle {
  std::shared_ptr<svc::Session> session;
  uint32_t plane;
};

/// What one environment (the main thread, or a worker) has open, by the numbers that its JavaScript gave out.
struct Engine {
  napi_threadsafe_function report = nullptr;
  std::mutex lock;
  bool closing = false;
  std::map<uint32_t, std::shared_ptr<svc::Source>> sources;
  std::map<uint32_t, std::shared_ptr<svc::AudioSource>> audio_sources;
  std::map<uint32_t, std::shared_ptr<svc::InputSink>> sinks;
  std::map<uint32_t, std::shared_ptr<svc::Plane>> planes;
  std::map<uint32_t, SessionHandle> sessions;
};

/// Kept by the environment and by every job under way, so that it outlives whichever ends last.
using EnginePtr = std::shared_ptr<Engine>;

struct Report {
  uint32_t id;
  bool is_ending;
  double value;
};

void send_report(Engine& engine, Report report) {
  auto* data = new Report(report);
  if (napi_call_threadsafe_function(engine.report, data, napi_tsfn_nonblocking) != napi_ok) delete data;
}

void call_report(napi_env env, napi_value callback, void*, void* data) {
  const std::unique_ptr<Report> report(static_cast<Report*>(data));
  if (!env) return;
  const Napi::HandleScope scope(env);
  napi_value args[3];
  napi_value self;
  napi_get_undefined(env, &self);
  napi_create_uint32(env, report->id, &args[0]);
  napi_get_boolean(env, report->is_ending, &args[1]);
  napi_create_double(env, report->value, &args[2]);
  napi_call_function(env, self, callback, 3, args, nullptr);
}

/// Takes a handle out of its map; empty when it is not there (any more).
template <typename Handle>
Handle take(Engine& engine, std::map<uint32_t, Handle>& handles, uint32_t id) {
  const std::lock_guard held(engine.lock);
  auto node = handles.extract(id);
  return node.empty() ? Handle{} : std::move(node.mapped());
}

template <typename Handle>
Handle find(Engine& engine, std::map<uint32_t, Handle>& handles, uint32_t id) {
  const std::lock_guard held(engine.lock);
  const auto found = handles.find(id);
  return found == handles.end() ? Handle{} : found->second;
}

template <typename Handle>
void keep(Engine& engine, std::map<uint32_t, Handle>& handles, uint32_t id, Handle handle) {
  const std::lock_guard held(engine.lock);
  if (engine.closing) throw Fault("options", "closing", "this environment is being torn down");
  handles.emplace(id, std::move(handle));
}

void close_source(Engine& engine, uint32_t id) {
  if (const auto source = take(engine, engine.sources, id)) source->stop();
}
void close_audio_source(Engine& engine, uint32_t id) {
  if (const auto source = take(engine, engine.audio_sources, id)) source->stop();
}
void close_sink(Engine& engine, uint32_t id) {
  if (const auto sink = take(engine, engine.sinks, id)) sink->stop();
}
void close_session(Engine& engine, uint32_t id) {
  if (const auto handle = take(engine, engine.sessions, id); handle.session) handle.session->close();
}
void close_plane(Engine& engine, uint32_t id) {
  std::vector<uint32_t> sessions;
  {
    const std::lock_guard held(engine.lock);
    for (const auto& [number, handle] : engine.sessions) {
      if (handle.plane == id) sessions.push_back(number);
    }
  }
  for (const uint32_t session : sessions) close_session(engine, session);
  if (const auto plane = take(engine, engine.planes, id)) plane->stop();
}

template <typename Handle>
std::vector<uint32_t> numbers(Engine& engine, const std::map<uint32_t, Handle>& handles) {
  const std::lock_guard held(engine.lock);
  std::vector<uint32_t> found;
  for (const auto& [number, handle] : handles) found.push_back(number);
  return found;
}

/// The environment goes: whatever its JavaScript left open is closed here, before the thread-safe function
/// is.
void close_all(void* data) {
  const std::unique_ptr<EnginePtr> owner(static_cast<EnginePtr*>(data));
  Engine& engine = **owner;
  {
    const std::lock_guard held(engine.lock);
    engine.closing = true;
  }
  for (const uint32_t id : numbers(engine, engine.sessions)) close_session(engine, id);
  for (const uint32_t id : numbers(engine, engine.planes)) close_plane(engine, id);
  for (const uint32_t id : numbers(engine, engine.sources)) close_source(engine, id);
  for (const uint32_t id : numbers(engine, engine.audio_sources)) close_audio_source(engine, id);
  for (const uint32_t id : numbers(engine, engine.sinks)) close_sink(engine, id);
  napi_release_threadsafe_function(engine.report, napi_tsfn_abort);
}

EnginePtr& engine_of(Napi::Env env) { return *env.GetInstanceData<EnginePtr>(); }

/// Does `work` on a thread of the pool and settles a promise; a Fault rejects it with its stage and code.
class Job final : public Napi::AsyncWorker {
 public:
  Job(Napi::Env env, std::function<void()> work)
      : Napi::AsyncWorker(env), deferred_(env), work_(std::move(work)) {}
  static Napi::Value run(Napi::Env env, std::function<void()> work) {
    auto* job = new Job(env, std::move(work));
    const Napi::Promise promise = job->deferred_.Promise();
    job->Queue();
    return promise;
  }
  void Execute() override {
    try {
      work_();
    } catch (const Fault& fault) {
      fault_ = fault;
    } catch (const std::exception& error) {
      fault_ = Fault("engine", "internal", error.what());
    }
    work_ = nullptr;
    if (fault_) SetError(fault_->what());
  }
  void OnOK() override { deferred_.Resolve(Env().Undefined()); }
  void OnError(const Napi::Error&) override {
    Napi::Error error = Napi::Error::New(Env(), fault_->what());
    error.Set("stage", fault_->stage);
    error.Set("code", fault_->code);
    deferred_.Reject(error.Value());
  }

 private:
  Napi::Promise::Deferred deferred_;
  std::function<void()> work_;
  std::optional<Fault> fault_;
};

std::string text(const Napi::Object& from, const char* name) { return from.Get(name).ToString().Utf8Value(); }
int number(const Napi::Object& from, const char* name) { return from.Get(name).ToNumber().Int32Value(); }
uint32_t id_at(const Napi::CallbackInfo& info, size_t i) { return info[i].ToNumber().Uint32Value(); }

/// Copies a key and wipes the caller's.
svc::MediaKey key_at(const Napi::Object& keys, const char* name) {
  auto bytes = keys.Get(name).As<Napi::Uint8Array>();
  svc::MediaKey key;
  std::memcpy(key.data(), bytes.Data(), key.size());
  OPENSSL_cleanse(bytes.Data(), bytes.ByteLength());
  return key;
}

Napi::Value open_source(const Napi::CallbackInfo& info) {
  const auto options = info[1].As<Napi::Object>();
  svc::SourceConfig config{.kind = text(options, "kind")};
  if (config.kind == "test") {
    config.width = number(options, "width");
    config.height = number(options, "height");
    config.hz = number(options, "hz");
  } else {
    config.display = text(options, "display");
    config.xauthority = text(options, "xauthority");
    config.cursor = options.Get("cursor").ToBoolean();
  }
  return Job::run(info.Env(), [engine = engine_of(info.Env()), id = id_at(info, 0), config] {
    std::shared_ptr<svc::Source> source = svc::open_source(config);
    keep(*engine, engine->sources, id, source);
    source->start([engine, id] {
      send_report(*engine, {id, true, static_cast<double>(svc::Ended::kSourceLost)});
    });
  });
}

Napi::Value open_audio_source(const Napi::CallbackInfo& info) {
  const auto options = info[1].As<Napi::Object>();
  svc::AudioSourceConfig config{.kind = text(options, "kind"), .channels = number(options, "channels")};
  if (config.kind == "pulse") {
    config.server = text(options, "server");
    config.cookie = text(options, "cookie");
    config.device = text(options, "device");
  }
  return Job::run(info.Env(), [engine = engine_of(info.Env()), id = id_at(info, 0), config] {
    std::shared_ptr<svc::AudioSource> source = svc::open_audio_source(config);
    keep(*engine, engine->audio_sources, id, source);
    source->start();
  });
}

Napi::Value open_sink(const Napi::CallbackInfo& info) {
  const auto options = info[1].As<Napi::Object>();
  const svc::InputSinkConfig config{text(options, "kind"), text(options, "display"),
                                    text(options, "xauthority")};
  return Job::run(info.Env(), [engine = engine_of(info.Env()), id = id_at(info, 0), config] {
    std::shared_ptr<svc::InputSink> sink = svc::open_input_sink(config);
    keep(*engine, engine->sinks, id, sink);
    sink->start();
  });
}

Napi::Value open_plane(const Napi::CallbackInfo& info) {
  const auto options = info[1].As<Napi::Object>();
  const std::string address = text(options, "address");
  const auto port = static_cast<uint16_t>(number(options, "port"));
  return Job::run(info.Env(), [engine = engine_of(info.Env()), id = id_at(info, 0), address, port] {
    auto plane = std::make_shared<svc::Plane>(address, port);
    keep(*engine, engine->planes, id, plane);
    plane->start();
  });
}

svc::Mode mode_at(const Napi::Object& mode) {
  return {number(mode, "width"), number(mode, "height"), number(mode, "hz")};
}

Napi::Value open_session(const Napi::CallbackInfo& info) {
  const auto options = info[1].As<Napi::Object>();
  const auto keys = options.Get("keys").As<Napi::Object>();
  const std::string id_text = text(options, "id");
  auto config = std::make_shared<svc::SessionConfig>();
  std::from_chars(id_text.data(), id_text.data() + id_text.size(), config->id, 16);
  config->epoch = options.Get("epoch").ToNumber().Uint32Value();
  config->generation = options.Get("generation").ToNumber().Uint32Value();
  config->keys = {key_at(keys, "videoOut"), key_at(keys, "audioOut"), key_at(keys, "pathOut"),
                  key_at(keys, "inputIn"), key_at(keys, "pathIn")};
  config->mode = mode_at(options.Get("mode").As<Napi::Object>());
  config->codec = text(options, "codec");
  config->bitrate_kbps = number(options, "bitrateKbps");
  config->grants = options.Get("grants").ToNumber().Uint32Value();
  config->max_datagram_bytes = static_cast<size_t>(number(options, "maxDatagramBytes"));
  config->idle_timeout_us = int64_t{number(options, "idleTimeoutMs")} * 1000;
  config->fec_percent = number(options, "fecPercent");
  const uint32_t plane = number(options, "plane");
  const uint32_t source = number(options, "source");
  const uint32_t sink = number(options, "inputSink");
  if (const Napi::Value audio = options.Get("audio"); audio.IsObject()) {
    const auto wish = audio.As<Napi::Object>();
    config->audio = svc::AudioConfig{number(wish, "channels"), number(wish, "frameMs")};
  }
  const uint32_t sound = number(options, "audioSource");
  return Job::run(info.Env(),
                  [engine = engine_of(info.Env()), id = id_at(info, 0), config, plane, source, sink, sound] {
                    config->plane = find(*engine, engine->planes, plane);
                    config->source = find(*engine, engine->sources, source);
                    config->sink = sink == 0 ? nullptr : find(*engine, engine->sinks, sink);
                    config->audio_source = sound == 0 ? nullptr : find(*engine, engine->audio_sources, sound);
                    std::shared_ptr<svc::Session> session;
                    try {
                      if (!config->plane)
                        throw Fault("plane", "closed", "the plane is closed; open another one");
                      if (!config->source)
                        throw Fault("source", "closed", "the picture source is closed; open another one");
                      if (sink != 0 && !config->sink)
                        throw Fault("input", "closed", "the input sink is closed; open another one");
                      session = std::make_shared<svc::Session>(*config);
                    } catch (...) {
                      OPENSSL_cleanse(&config->keys, sizeof config->keys);
                      throw;
                    }
                    OPENSSL_cleanse(&config->keys, sizeof config->keys);
                    keep(*engine, engine->sessions, id, {session, plane});
                    try {
                      session->start({
                          [engine, id](svc::Ended why) {
                            send_report(*engine, {id, true, static_cast<double>(why)});
                          },
                          [engine, id](double ms) {
                            send_report(*engine, {id, false, ms});
                          },
                      });
                    } catch (...) {
                      take(*engine, engine->sessions, id);
                      throw;
                    }
                  });
}

Napi::Value resize(const Napi::CallbackInfo& info) {
  const uint32_t source_id = id_at(info, 1);
  const svc::Mode mode = mode_at(info[2].As<Napi::Object>());
  const uint32_t generation = id_at(info, 3);
  return Job::run(info.Env(),
                  [engine = engine_of(info.Env()), id = id_at(info, 0), source_id, mode, generation] {
                    const auto handle = find(*engine, engine->sessions, id);
                    auto source = find(*engine, engine->sources, source_id);
                    if (!handle.session)
                      throw Fault("resize", "closed", "the session is closed, so it cannot be resized");
                    if (!source)
                      throw Fault("source", "closed", "the picture source is closed; open another one");
                    handle.session->resize(std::move(source), mode, generation);
                  });
}

/// The C library keeps what was freed below something that is still in use: a host that has served many
/// sessions would hold on to what each of them left.
void give_back_memory() { malloc_trim(0); }

template <void (*Close)(Engine&, uint32_t)>
Napi::Value close_handle(const Napi::CallbackInfo& info) {
  return Job::run(info.Env(), [engine = engine_of(info.Env()), id = id_at(info, 0)] {
    Close(*engine, id);
    give_back_memory();
  });
}

Napi::Value codecs(const Napi::CallbackInfo& info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t i = 0;
  for (const std::string& codec : svc::codecs()) list.Set(i++, codec);
  return list;
}

Napi::Value source_size(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  const auto source = find(engine, engine.sources, id_at(info, 0));
  if (!source) return info.Env().Undefined();
  auto size = Napi::Array::New(info.Env());
  size.Set(0U, source->width());
  size.Set(1U, source->height());
  return size;
}

Napi::Value plane_stats(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  const auto plane = find(engine, engine.planes, id_at(info, 0));
  if (!plane) return info.Env().Undefined();
  auto stats = Napi::Object::New(info.Env());
  stats.Set("port", plane->port());
  stats.Set("received", static_cast<double>(plane->received()));
  stats.Set("rejected", static_cast<double>(plane->rejected()));
  return stats;
}

void request_keyframe(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  if (const auto handle = find(engine, engine.sessions, id_at(info, 0)); handle.session)
    handle.session->request_keyframe();
}

void set_grants(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  if (const auto handle = find(engine, engine.sessions, id_at(info, 0)); handle.session) {
    handle.session->set_grants(info[1].ToNumber().Uint32Value());
  }
}

void set_bitrate(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  if (const auto handle = find(engine, engine.sessions, id_at(info, 0)); handle.session) {
    handle.session->set_bitrate(info[1].ToNumber().Int32Value());
  }
}

void set_audio_source(const Napi::CallbackInfo& info) {
  auto& engine = *engine_of(info.Env());
  if (const auto handle = find(engine, engine.sessions, id_at(info, 0)); handle.session) {
    handle.session->set_audio_source(find(engine, engine.audio_sources, id_at(info, 1)));
  }
}

Napi::Value sample(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto& engine = *engine_of(env);
  const auto handle = find(engine, engine.sessions, id_at(info, 0));
  if (!handle.session) return env.Undefined();
  const svc::Sample sample = handle.session->sample();
  auto out = Napi::Object::New(env);
  const auto set = [&](const char* name, auto value) { out.Set(name, static_cast<double>(value)); };
  auto stages = Napi::Array::New(env);
  uint32_t i = 0;
  for (const auto& stage : sample.stages) {
    auto entry = Napi::Object::New(env);
    entry.Set("name", stage.name);
    entry.Set("p50_us", stage.us.p50_us);
    entry.Set("p99_us", stage.us.p99_us);
    stages.Set(i++, entry);
  }
  set("span_ms", static_cast<double>(sample.span_us) / 1000);
  out.Set("stages", stages);
  set("frames_new", sample.frames_new);
  set("frames_repeated", sample.frames_repeated);
  set("frames_dropped", sample.frames_dropped);
  set("packets_sent", sample.packets_sent);
  set("wire_bytes", sample.wire_bytes);
  set("payload_bytes", sample.payload_bytes);
  set("parity_packets", sample.parity_packets);
  set("send_dropped", sample.send_dropped);
  set("bitrate_kbps", sample.bitrate_kbps);
  set("keyframes", sample.keyframes);
  set("recoveries", sample.recoveries);
  set("datagram_bytes", sample.datagram_bytes);
  set("parity_percent", sample.parity_percent);
  set("loss_percent", sample.loss * 100);
  set("pace_kbps", sample.pace_kbps);
  if (sample.has_feedback) {
    set("packets_lost", sample.packets_lost);
    set("fec_recovered", sample.fec_recovered);
    set("frames_lost", sample.frames_lost);
  }
  if (sample.rtt_us != 0) set("rtt_us", sample.rtt_us);
  set("host_p50_us", sample.host_us.p50_us);
  set("host_p99_us", sample.host_us.p99_us);
  set("input_events", sample.input_events);
  set("input_dropped", sample.input_dropped);
  if (sample.audio) {
    set("audio_packets", sample.audio->packets);
    set("audio_parity_packets", sample.audio->parity_packets);
    set("audio_wire_bytes", sample.audio->wire_bytes);
    set("audio_dropped", sample.audio->dropped_chunks);
    set("audio_packets_lost", sample.audio->lost_packets);
    set("audio_corrected_samples", sample.audio->corrected_samples);
    set("audio_drift_ppm", sample.audio->drift_ppm);
  }
  return out;
}

/// Called once by native/index.ts with the function that gets every report: (id, isEnding, value).
void start(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto engine = std::make_shared<Engine>();
  const Napi::String name = Napi::String::New(env, "svc-host engine");
  if (napi_create_threadsafe_function(env, info[0], nullptr, name, 0, 1, nullptr, nullptr, nullptr,
                                      call_report, &engine->report) != napi_ok) {
    throw Napi::Error::New(env, "the engine could not make its way back into JavaScript");
  }
  napi_unref_threadsafe_function(env, engine->report);
  napi_add_env_cleanup_hook(env, close_all, new EnginePtr(engine));
  env.SetInstanceData<EnginePtr>(new EnginePtr(engine));
}

/// The C library keeps what a session has freed in an arena for each thread it ever had, and gives little
/// back: with these, large buffers return to the system at once and a host that has served many sessions is
/// as small as after one.
void keep_memory_small() {
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  mallopt(M_TRIM_THRESHOLD, 128 * 1024);
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  keep_memory_small();
  const auto add = [&](const char* name, auto function) {
    exports.Set(name, Napi::Function::New(env, function));
  };
  exports.Set("abi", kAbi);
  add("start", start);
  add("codecs", codecs);
  add("openSource", open_source);
  add("closeSource", close_handle<close_source>);
  add("sourceSize", source_size);
  add("openAudioSource", open_audio_source);
  add("closeAudioSource", close_handle<close_audio_source>);
  add("setAudioSource", set_audio_source);
  add("openInputSink", open_sink);
  add("closeInputSink", close_handle<close_sink>);
  add("openPlane", open_plane);
  add("closePlane", close_handle<close_plane>);
  add("planeStats", plane_stats);
  add("openSession", open_session);
  add("closeSession", close_handle<close_session>);
  add("resize", resize);
  add("requestKeyframe", request_keyframe);
  add("setGrants", set_grants);
  add("setBitrate", set_bitrate);
  add("sample", sample);
  return exports;
}

}  // namespace

NODE_API_MODULE(engine, init)
