// The runner as a service of its own: the text of the user unit `svc-scripting`, for whoever installs services.

export const unitName = 'svc-scripting'

/** `command`: what starts the runner, program first. */
export const unitFile = (command: readonly string[]): string => `[Unit]
Description=Scripts and plugins of the streaming host
After=svc-host.service

[Service]
ExecStart=${command.map(quoted).join(' ')}
Restart=on-failure
RestartSec=2
# The runner ends its units itself, so that their finalizers run.
KillMode=mixed
TimeoutStopSec=10

[Install]
WantedBy=default.target
`

/** As systemd reads an argument. */
const quoted = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replaceAll('%', '%%').replaceAll('$', '$$$$')}"`
