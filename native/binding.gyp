# How the engine is built; `native/build.mjs` calls it and says which sanitizer, if any.
{
  'variables': {
    'sanitize%': 'none',
    'tests%': 0,
    'napi_include%': '',
    'core': [
      'core/audio_clock.cc', 'core/audio_encoder.cc', 'core/audio_packetizer.cc', 'core/audio_pulse.cc',
      'core/audio_sender.cc', 'core/audio_source.cc', 'core/audio_tone.cc',
      'core/convert.cc', 'core/encoder.cc', 'core/encoder_x264.cc', 'core/input_sink.cc', 'core/input_x11.cc',
      'core/keycode.cc', 'core/packetizer.cc', 'core/loss_control.cc', 'core/parity.cc', 'core/path_probe.cc', 'core/picture.cc', 'core/plane.cc', 'core/seal.cc',
      'core/rate_control.cc', 'core/sender.cc', 'core/session.cc', 'core/session_path.cc', 'core/session_receive.cc', 'core/socket.cc', 'core/source.cc',
      'core/source_pattern.cc', 'core/source_x11.cc', 'core/x11.cc', 'core/x11_cursor.cc',
      'core/x11_keyboard.cc',
    ],
  },
  'target_defaults': {
    'cflags_cc!': ['-std=gnu++17', '-std=gnu++20', '-fno-exceptions', '-fno-rtti'],
    'cflags!': ['-fno-omit-frame-pointer'],
    'cflags_cc': ['-std=c++20', '-O3', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Wno-missing-field-initializers', '-fvisibility=hidden'],
    'libraries': [
      '-lx264', '-lyuv', '-lisal', '-lcrypto', '-lxcb', '-lxcb-shm', '-lxcb-damage', '-lxcb-xfixes', '-lxcb-xtest',
      '-lxcb-xinput', '-lopus', '-lpulse', '-lpthread',
    ],
    'conditions': [
      ['sanitize!="none"', {'sources': ['core/sanitizer_check.cc']}],
      ['target_arch=="x64"', {'cflags_cc': ['-march=x86-64-v2']}],
      ['sanitize=="address"', {
        'cflags_cc': ['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', '-fno-omit-frame-pointer', '-g', '-O1'],
        'ldflags': ['-fsanitize=address,undefined'],
      }],
      ['sanitize=="thread"', {
        'cflags_cc': ['-fsanitize=thread', '-g', '-O1'],
        'ldflags': ['-fsanitize=thread'],
      }],
    ],
  },
  'conditions': [
    ['tests==0', {
      'targets': [
        {
          'target_name': 'engine',
          'sources': ['binding.cc', '<@(core)'],
          'include_dirs': ['<(napi_include)', 'core'],
          'defines': ['NAPI_VERSION=8', 'NAPI_CPP_EXCEPTIONS', 'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS'],
        },
      ],
    }, {
      'targets': [
        {
          'target_name': 'core_test',
          'type': 'executable',
          'sources': [
            'core/audio_test.cc', 'core/control_test.cc', 'core/core_test.cc', 'core/devices_test.cc',
            'core/encoder_test.cc', 'core/packets_test.cc', 'core/parsers_test.cc', 'core/pipeline_test.cc',
            'core/shared_test.cc', 'core/timing_test.cc', 'core/vectors_test.cc', '<@(core)',
          ],
          'include_dirs': ['core'],
        },
      ],
    }],
  ],
}
