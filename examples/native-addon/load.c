// How busy the machine is, by sysinfo(2): no file to parse, and all of it as of one moment.
#include <node_api.h>
#include <sys/sysinfo.h>

static void set_number(napi_env env, napi_value object, const char* name, double number) {
  napi_value value;
  if (napi_create_double(env, number, &value) == napi_ok) napi_set_named_property(env, object, name, value);
}

static napi_value read_load(napi_env env, napi_callback_info info) {
  (void)info;
  struct sysinfo now;
  if (sysinfo(&now) != 0) {
    napi_throw_error(env, "SYSINFO", "sysinfo failed");
    return NULL;
  }
  napi_value load;
  if (napi_create_object(env, &load) != napi_ok) return NULL;
  set_number(env, load, "oneMinute", (double)now.loads[0] / (1 << SI_LOAD_SHIFT));
  set_number(env, load, "freeBytes", (double)now.freeram * now.mem_unit);
  set_number(env, load, "totalBytes", (double)now.totalram * now.mem_unit);
  set_number(env, load, "uptimeSeconds", (double)now.uptime);
  return load;
}

static napi_value init(napi_env env, napi_value exports) {
  napi_value function;
  if (napi_create_function(env, "readLoad", NAPI_AUTO_LENGTH, read_load, NULL, &function) == napi_ok)
    napi_set_named_property(env, exports, "readLoad", function);
  return exports;
}

NAPI_MODULE(load, init)
