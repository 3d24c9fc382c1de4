// The wire's route table as the tests have it: every route, with its operation id, its lanes and its success statuses.
import type { Lanes, Route } from 'svc-host/sdk'

// Method, path, operation id (- for none), lanes, success statuses. Lanes: N no credential, L loopback, A admin only,
// P the plugin runner's token, O a plugin's own token, O-own that for its own id only, D a paired device.
export const table = `
GET    /health                                 getHealth                    N         200
GET    /openapi.json                           -                            N         200
GET    /api/docs                              -                            N         200
GET    /api/docs/start.js                     -                            N         200
GET    /api/docs/swagger-ui.css               -                            N         200
GET    /api/docs/swagger-ui-bundle.js         -                            N         200
GET    /host                                   getHostInfo                  A D       200
GET    /status                                 getStatus                    A P O D   200
GET    /local/summary                          getLocalSummary              L         200
GET    /compositors                            listCompositors              A P O D   200
POST   /auth/device/challenge                  postDeviceChallenge          N         200
POST   /auth/device/token                      postDeviceToken              N         200
POST   /auth/device/knock                      postDeviceKnock              N         202
POST   /auth/device/pair                       postDevicePair               N         200
GET    /events                                 streamEvents                 A P O     200
DELETE /session                                stopSession                  A P O     204
POST   /session/idr                            requestIdr                   A P O     202
GET    /session/settings                       getSessionSettings           A P O     200
PUT    /session/settings                       setSessionSettings           A P O     200
POST   /game/end                               endGame                      A P O     200
GET    /pair                                   getPairingStatus             A         200
POST   /pair/pin                               submitPairingPin             A         204
GET    /clients                                listPairedClients            A         200
DELETE /clients                                unpairAllClients             A         200
DELETE /clients/{fingerprint}                  unpairClient                 A         204
PATCH  /clients/{fingerprint}                  renameClient                 A         200
GET    /native/pair                            getNativePairing             A         200
DELETE /native/pair                            disarmNativePairing          A         204
POST   /native/pair/arm                        armNativePairing             A         200
GET    /native/pending                         listPendingDevices           A         200
POST   /native/pending/{id}/approve            approvePendingDevice         A         200
POST   /native/pending/{id}/deny               denyPendingDevice            A         204
GET    /native/clients                         listNativeClients            A         200
DELETE /native/clients                         unpairAllNativeClients       A         200
DELETE /native/clients/{fingerprint}           unpairNativeClient           A         204
PATCH  /native/clients/{fingerprint}           updateNativeClientAccess     A         200
GET    /display/state                          getDisplayState              A P O     200
POST   /display/release                        releaseDisplay               A P O     200
GET    /display/settings                       getDisplaySettings           A P O     200
PUT    /display/settings                       setDisplaySettings           A P O     200
PUT    /display/layout                         setDisplayLayout             A P O     200
GET    /display/presets                        listCustomPresets            A P O     200
POST   /display/presets                        createCustomPreset           A P O     201
PUT    /display/presets/{id}                   updateCustomPreset           A P O     200
DELETE /display/presets/{id}                   deleteCustomPreset           A P O     204
GET    /extensions                             listExtensions               A         200
PUT    /extensions/{id}                        setExtension                 A         200
GET    /extensions/{id}/config                 getExtensionConfig           A         200
PUT    /extensions/{id}/config                 setExtensionConfig           A         200
GET    /extensions/{id}/permissions            getExtensionPermissions      A         200
PUT    /extensions/{id}/permissions            setExtensionPermissions      A         200
GET    /gpus                                   listGpus                     A         200
PUT    /gpus/preference                        setGpuPreference             A         200
GET    /library                                getLibrary                   A P O D   200
GET    /library/art/{id}/{kind}                getLibraryArt                A P O D   200,304
POST   /library/custom                         createCustomGame             A P       201
PUT    /library/custom/{id}                    updateCustomGame             A P       200
DELETE /library/custom/{id}                    deleteCustomGame             A P       204
PUT    /library/provider/{provider}            reconcileProviderEntries     A P O-own 200
DELETE /library/provider/{provider}            deleteProviderEntries        A P O-own 200
GET    /library/scanners                       listLibraryScanners          A         200
PUT    /library/scanners/{id}                  setLibraryScanner            A         200
GET    /hooks                                  getHooks                     A         200
PUT    /hooks                                  setHooks                     A         200
POST   /stats/capture/start                    statsCaptureStart            A         200
POST   /stats/capture/stop                     statsCaptureStop             A         200,204
GET    /stats/capture/status                   statsCaptureStatus           A         200
GET    /stats/capture/live                     statsCaptureLive             A         200
GET    /stats/recordings                       statsRecordingsList          A         200
GET    /stats/recordings/{id}                  statsRecordingGet            A         200
DELETE /stats/recordings/{id}                  statsRecordingDelete         A         204
GET    /logs                                   logsGet                      A         200
POST   /client-logs                            clientLogsUpload             D         201
GET    /client-logs                            clientLogsList               A         200
GET    /client-logs/{id}                       clientLogsGet                A         200
DELETE /client-logs/{id}                       clientLogsDelete             A         204
GET    /plugins                                listPlugins                  A P O     200
PUT    /plugins/{id}                           registerPlugin               A P O-own 204
DELETE /plugins/{id}                           deregisterPlugin             A P O-own 204
GET    /plugins/{id}/ui-credential             getPluginUiCredential        A         200
POST   /plugins/logs                           ingestPluginLogs             A P O     204
GET    /actions                                listActions                  A D       200
POST   /actions/{id}                           invokeAction                 A D       202
GET    /store/catalog                          getPluginCatalog             A         200
POST   /store/refresh                          refreshPluginCatalog         A         200
GET    /store/installed                        listInstalledPlugins         A         200
POST   /store/install                          installPlugin                A         202
POST   /store/uninstall                        uninstallPlugin              A         202
POST   /store/update                          updatePlugin                 A         202
POST   /store/rollback                        rollbackPlugin               A         202
PUT    /store/pin                             pinPlugin                    A         204
GET    /store/jobs                             listPluginJobs               A         200
GET    /store/jobs/{id}                        getPluginJob                 A         200
GET    /store/sources                          listPluginSources            A         200
PUT    /store/sources/{name}                   putPluginSource              A         204
DELETE /store/sources/{name}                   deletePluginSource           A         204
GET    /store/runtime                          getPluginRuntime             A         200
POST   /store/runtime                          setPluginRuntime             A         200
GET    /update/status                          getUpdateStatus              A         200
POST   /update/check                           forceUpdateCheck             A         200
POST   /update/apply                           applyUpdate                  A         202
`

export interface Row {
  readonly id: string
  readonly lanes: string
  readonly statuses: string
}
export const rows = new Map<string, Row>(
  table
    .trim()
    .split('\n')
    .map(line => {
      const [, method, path, id, lanes, statuses] = /^(\w+) +(\S+) +(\S+) +(.+?) +([\d,]+)$/.exec(line)!
      return [`${method} ${path}`, { id: id!, lanes: lanes!, statuses: statuses! }]
    }),
)

/** Lanes as the table writes them; D stands for `any` and `grant`, since which grant is the handler's matter. */
export function lettersOf(lanes: Lanes): string {
  if (lanes === 'open') return 'N'
  if (lanes === 'loopback') return 'L'
  const plugin = { runner: ['P'], own: ['P', 'O-own'], all: ['P', 'O'] }
  return ['A', ...(lanes.plugin ? plugin[lanes.plugin] : []), ...(lanes.device ? ['D'] : [])].join(' ')
}

export const asRow = (route: Route): Row => ({
  id: route.id ?? '-',
  lanes: lettersOf(route.lanes),
  statuses: route.stream ? '200' : Object.keys(route.replies ?? {}).join(','),
})
