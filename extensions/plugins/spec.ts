// What to install, as people write it: a name in a registry, or the path of a packed package or a folder.
import semver from 'semver'

export type Spec =
  | { readonly kind: 'registry'; readonly name: string; readonly wanted: string }
  | { readonly kind: 'file'; readonly path: string }

/** Packages of the vendor live here; what a bare name stands for. */
export const vendorScope = '@svc'

/** Says what is wrong with a spec and how to write it. */
export class SpecRefused extends Error {}

const packageName = /^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/
const tag = /^[a-z][a-z0-9._-]*$/i

/** `name`, `@scope/name`, either with `@version`, `@range` or `@tag`; `file:` and an absolute path. */
export function parseSpec(text: string): Spec {
  if (text.startsWith('file:')) {
    const path = text.slice('file:'.length)
    if (!path.startsWith('/') || path.includes('\0')) throw new SpecRefused('file: needs an absolute path')
    return { kind: 'file', path }
  }
  const at = text.indexOf('@', 1)
  const [name, wanted] = at < 0 ? [text, 'latest'] : [text.slice(0, at), text.slice(at + 1)]
  if (name.length > 214 || !packageName.test(name)) {
    const shown = JSON.stringify(text.slice(0, 80))
    throw new SpecRefused(
      `${shown} is not a package: expected a name, name@version, or file:/path of a package`,
    )
  }
  if (semver.validRange(wanted) === null && !tag.test(wanted))
    throw new SpecRefused(`${JSON.stringify(wanted.slice(0, 80))} is neither a version nor a tag of ${name}`)
  return { kind: 'registry', name, wanted }
}

export const isVendorName = (name: string): boolean => name.startsWith(`${vendorScope}/`)

/** `@scope/plugin-name` and `svc-plugin-name` hold the extension `name`; undefined: no such name. */
export const idOfPackage = (pkg: string): string | undefined =>
  /^(?:@[^/]+\/plugin-|svc-plugin-)([a-z][a-z0-9]*(?:-[a-z0-9]+)*)$/.exec(pkg)?.[1]

/** A bare name is one of the vendor's plugins; `exact` takes it as it stands. */
export const fullName = (text: string, exact = false): string =>
  exact || text.startsWith('@') || text.startsWith('svc-plugin-') ? text : `${vendorScope}/plugin-${text}`
