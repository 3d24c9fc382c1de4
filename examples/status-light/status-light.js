// A light that shows what the host is doing: dark, blinking while somebody wants in, lit while something streams. A bare
// script: copy it to <config>/scripts/. It prints a line per change, keeps the last one in its folder, and drives an LED
// where `led.json` in that folder names one, as {"brightness": "/sys/class/leds/…/brightness"}.
//
// @permission api:host
// @permission api:events
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'svc-host/client'

const ended = new AbortController()
process.once('SIGTERM', () => ended.abort())

/** Its path has to be granted besides, by a line `// @permission write:/sys/class/leds/…` above. */
const led = existsSync('led.json') ? JSON.parse(readFileSync('led.json', 'utf8')).brightness : undefined

let light = ''
/** @param {'dark' | 'blinking' | 'lit'} next */
function show(next) {
  if (next === light) return
  light = next
  console.log(light)
  writeFileSync('light', `${light}\n`)
  shine(light === 'lit')
}
/** @param {boolean} isLit */
function shine(isLit) {
  if (!led) return
  try {
    writeFileSync(led, isLit ? '1' : '0')
  } catch (error) {
    console.error(`${led} cannot be written to: ${error}`)
  }
}
/** @param {AbortSignal} signal */
async function blink(signal) {
  for (let isLit = true; !signal.aborted; isLit = !isLit) {
    if (light === 'blinking') shine(isLit)
    await sleep(500, undefined, { signal, ref: false }).catch(() => {})
  }
}

const client = await connect()
async function look() {
  const { video_streaming, pin_pending } = await client.call('GET', '/status')
  show(video_streaming ? 'lit' : pin_pending ? 'blinking' : 'dark')
}

void blink(ended.signal)
// Nothing that happened is lost between two looks: each event, and each gap, is a reason to look again.
for await (const found of client.follow({ kinds: 'stream.*,pairing.*', signal: ended.signal })) {
  if (found.type === 'event' && found.event.kind === 'pairing.pending') show('blinking')
  else if (found.type === 'disconnected') show('dark')
  else await look().catch(error => console.error(error.message))
}
show('dark')
client.close()
