// What the help of each verb shows as examples.
import type { Command } from 'commander'

const examples: Readonly<Record<string, readonly string[]>> = {
  list: ['list', 'list --json'],
  enable: ['enable mdns', 'enable status-light event-notifier'],
  disable: ['disable mdns'],
  restart: ['restart event-notifier'],
  status: ['status', 'status status-light'],
  info: ['info event-notifier'],
  search: ['search', 'search light'],
  logs: ['logs media', 'logs status-light --follow --level warn'],
  add: [
    'add status-light',
    'add @acme/plugin-lamp@1.2.0 --allow-public-registry',
    'add ./svc-plugin-lamp-1.2.0.tgz --grant',
    'add ./my-plugin --grant network:lamp.example.net --grant routes',
  ],
  remove: ['remove status-light', 'remove status-light --keep-data'],
  update: ['update', 'update status-light --version 1.3.0'],
  rollback: ['rollback status-light'],
  pin: ['pin status-light'],
  unpin: ['unpin status-light'],
  grant: ['grant event-notifier', `grant event-notifier 'events:*'`],
  revoke: [`revoke event-notifier 'network:{config.url}'`],
  'config get': ['config get mdns', 'config get native-plane port', 'config get mdns --json'],
  'config set': [
    'config set mdns enabled=off',
    `config set event-notifier 'kinds=["session.started"]' retryMs=500`,
    'config set event-notifier --from url=./url.txt',
  ],
  'config unset': ['config unset mdns enabled'],
  'config edit': ['config edit mdns'],
  top: ['top', 'top --once', 'top --json --interval 5'],
  doctor: ['doctor', 'doctor status-light --network'],
  verify: ['verify', 'verify ./svc-plugin-lamp-1.2.0.tgz'],
  pack: ['pack', 'pack ./my-plugin --into dist'],
  test: ['test', 'test ./my-plugin'],
  new: ['new my-light', 'new my-light --js --scope @acme'],
}

/** Adds them to every verb of `program`, and to the verbs of those that have some. */
export function showExamples(program: Command, before = ''): void {
  for (const verb of program.commands) {
    const name = `${before}${verb.name()}`
    const lines = (examples[name] ?? []).map(line => `  svc-host plugins ${line}`)
    if (lines.length) verb.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
    showExamples(verb, `${name} `)
  }
}
