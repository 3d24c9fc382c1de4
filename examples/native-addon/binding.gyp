# `npx node-gyp rebuild` makes build/Release/load.node; a package ships it, since nothing is built where it is installed.
{
  'targets': [{ 'target_name': 'load', 'sources': ['load.c'], 'cflags': ['-std=c11', '-Wall', '-Wextra'] }],
}
