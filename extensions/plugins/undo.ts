// After a crash in the middle of a package operation: before anything starts, the ledger is what it was or what it was to be.
import { defineUndo } from 'svc-host/sdk'
import { recover } from './tidy.ts'

export default defineUndo({
  package: { undo: ({ configDir }: { configDir: string }) => recover(configDir) },
})
