// Access levels by name (wire-decisions, "Grants").
import { Argument, Option } from 'commander'

/** Masks of the levels that can be given by name. */
export const presetGrants: Record<string, number> = { full: 0x7f, controller: 0x01, view: 0x00 }
const names = Object.keys(presetGrants)

export const presetOption = (): Option =>
  new Option('--preset <level>', 'what the device may do').choices(names)
export const presetArgument = (): Argument =>
  new Argument('<level>', 'what it may do from now on').choices(names)
