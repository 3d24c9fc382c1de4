// What each extension and each unit of the plugin runner asks for, and the operator's decisions about it.
import { covers, type Extensions, explainPermission, HttpError, parsePermission } from 'svc-host/sdk'
import { decidedBy, listed, stateOf } from './consent.ts'
import type { Ledger } from './ledger.ts'
import type { Permissions, PermitRequest } from './schema.ts'

export interface PermissionsOptions {
  readonly extensions: Pick<Extensions, 'list' | 'permit' | 'decided' | 'decide'>
  readonly ledger: () => Promise<Ledger>
  /** Something was decided. */
  readonly onChange: (id: string) => void
}

export interface PermissionBook {
  /** Throws 404 for what is not here. */
  of(id: string): Promise<Permissions>
  /** Decides, and starts anew what it concerns; throws 400 for what it does not ask for. */
  permit(id: string, request: PermitRequest): Promise<Permissions>
}

export function createPermissions({ extensions, ledger, onChange }: PermissionsOptions): PermissionBook {
  const unitOf = async (id: string): Promise<readonly string[] | undefined> =>
    Object.values((await ledger()).packages).find(each => each.id === id)?.unit?.permissions

  const statesOf = async (
    id: string,
  ): Promise<Pick<Permissions['permissions'][number], 'permission' | 'state'>[]> => {
    const record = extensions.list().find(each => each.id === id)
    if (record) return [...record.permissions]
    const asks = await unitOf(id)
    if (!asks) throw new HttpError(404, `there is no extension "${id}"`)
    const decision = extensions.decided(id)
    return asks.map(permission => ({ permission, state: stateOf(decision, permission) }))
  }
  const of = async (id: string): Promise<Permissions> => ({
    id,
    permissions: (await statesOf(id)).map(each => ({ ...each, meaning: explainPermission(each.permission) })),
  })

  /** Refuses what has nothing to do with what is asked for. */
  const check = (id: string, asks: readonly string[], texts: readonly string[]): void => {
    for (const text of texts) {
      try {
        parsePermission(text)
      } catch (error) {
        throw new HttpError(400, (error as Error).message)
      }
      if (asks.some(each => covers(text, each) || covers(each, text))) continue
      throw new HttpError(400, `${id} does not ask for ${text}; it asks for ${listed(asks) || 'nothing'}`)
    }
  }

  return {
    of,
    async permit(id, { granted: given = [], refused: kept = [] }) {
      const states = await statesOf(id)
      const open = states.flatMap(({ permission, state }) => (state === 'asked' ? [permission] : []))
      const granted = given === 'all' ? open.filter(each => !kept.includes(each)) : given
      // A yes to everything says nothing about what was refused by name.
      const before = given === 'all' ? extensions.decided(id).refused : []
      const refused = [...kept, ...before.filter(each => granted.some(have => covers(have, each)))]
      const asks = states.map(({ permission }) => permission)
      check(id, asks, [...granted, ...kept])
      const both = granted.find(text => kept.includes(text))
      if (both !== undefined) throw new HttpError(400, `${both} cannot be granted and refused at once`)
      if (extensions.list().some(each => each.id === id)) await extensions.permit(id, { granted, refused })
      else await extensions.decide(id, decidedBy(extensions.decided(id), { granted, refused }))
      onChange(id)
      return of(id)
    },
  }
}
