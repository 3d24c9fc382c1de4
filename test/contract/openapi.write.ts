// Writes sdk/openapi.json anew from what a host serves:
//   node_modules/.bin/node --conditions=svc-source test/contract/openapi.write.ts
import { writeFileSync } from 'node:fs'
import { copyPath, servedDocument, sorted } from './openapi.ts'

writeFileSync(copyPath, `${JSON.stringify(sorted(await servedDocument()), null, 2)}\n`)
console.log(`wrote ${copyPath}`)
