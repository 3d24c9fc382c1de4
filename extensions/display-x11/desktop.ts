// The files behind a desktop: window manager, its looks and menu, terminal, shell. All text, made from the mode.
import type { Mode } from 'svc-host/api/media'

const colours = {
  ground: '#171537',
  raised: '#2a2250',
  line: '#412f69',
  text: '#f1ecff',
  faint: '#a79bc9',
  accent: '#f2b184',
} as const

const escapeXml = (text: string): string =>
  text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)

const rc = (
  themeName: string,
  menuFile: string,
  terminal: string,
): string => `<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><followMouse>no</followMouse><focusLast>yes</focusLast></focus>
  <placement><policy>Smart</policy><center>yes</center></placement>
  <theme>
    <name>${escapeXml(themeName)}</name><titleLayout>LIMC</titleLayout><keepBorder>yes</keepBorder>
    <font place="ActiveWindow"><name>DejaVu Sans</name><size>10</size><weight>bold</weight></font>
    <font place="InactiveWindow"><name>DejaVu Sans</name><size>10</size></font>
    <font place="MenuHeader"><name>DejaVu Sans</name><size>10</size></font>
    <font place="MenuItem"><name>DejaVu Sans</name><size>10</size></font>
  </theme>
  <desktops><number>1</number></desktops>
  <keyboard>
    <keybind key="A-F4"><action name="Close"/></keybind>
    <keybind key="A-Tab"><action name="NextWindow"/></keybind>
    <keybind key="W-Up"><action name="ToggleMaximize"/></keybind>
    ${terminal && `<keybind key="W-Return"><action name="Execute"><command>${escapeXml(terminal)}</command></action></keybind>`}
  </keyboard>
  <mouse>
    <context name="Titlebar">
      <mousebind button="Left" action="Drag"><action name="Move"/></mousebind>
      <mousebind button="Left" action="DoubleClick"><action name="ToggleMaximize"/></mousebind>
    </context>
    <context name="Frame">
      <mousebind button="A-Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
      <mousebind button="A-Left" action="Drag"><action name="Move"/></mousebind>
      <mousebind button="A-Right" action="Drag"><action name="Resize"/></mousebind>
    </context>
    ${['Titlebar', 'Top', 'Bottom', 'Left', 'Right', 'TLCorner', 'TRCorner', 'BLCorner', 'BRCorner', 'Client']
      .map(
        context =>
          `<context name="${context}"><mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind></context>`,
      )
      .join('\n    ')}
    ${['Top', 'Bottom', 'Left', 'Right', 'TLCorner', 'TRCorner', 'BLCorner', 'BRCorner']
      .map(
        context =>
          `<context name="${context}"><mousebind button="Left" action="Drag"><action name="Resize"/></mousebind></context>`,
      )
      .join('\n    ')}
    <context name="Close"><mousebind button="Left" action="Click"><action name="Close"/></mousebind></context>
    <context name="Maximize"><mousebind button="Left" action="Click"><action name="ToggleMaximize"/></mousebind></context>
    <context name="Iconify"><mousebind button="Left" action="Click"><action name="Iconify"/></mousebind></context>
    <context name="Root"><mousebind button="Right" action="Press"><action name="ShowMenu"><menu>root-menu</menu></action></mousebind></context>
  </mouse>
  <menu><file>${escapeXml(menuFile)}</file></menu>
</openbox_config>
`

const menu = (terminal: string): string => `<?xml version="1.0" encoding="UTF-8"?>
<openbox_menu xmlns="http://openbox.org/3.4/menu">
  <menu id="root-menu" label="svc-host">
    ${terminal && `<item label="Terminal"><action name="Execute"><command>${escapeXml(terminal)}</command></action></item>`}
    <menu id="client-list-menu"/>
  </menu>
</openbox_menu>
`

const theme = `border.width: 1
padding.width: 8
padding.height: 5
window.handle.width: 0
window.client.padding.width: 0
window.active.border.color: ${colours.line}
window.inactive.border.color: ${colours.raised}
window.active.title.separator.color: ${colours.line}
window.inactive.title.separator.color: ${colours.raised}
window.active.title.bg: Flat Solid
window.active.title.bg.color: ${colours.raised}
window.inactive.title.bg: Flat Solid
window.inactive.title.bg.color: ${colours.ground}
window.*.label.bg: Parentrelative
window.active.label.text.color: ${colours.text}
window.inactive.label.text.color: ${colours.faint}
window.label.text.justify: left
window.*.button.*.bg: Parentrelative
window.active.button.*.image.color: ${colours.faint}
window.active.button.hover.image.color: ${colours.accent}
window.inactive.button.*.image.color: ${colours.line}
menu.border.color: ${colours.line}
menu.items.bg: Flat Solid
menu.items.bg.color: ${colours.ground}
menu.items.text.color: ${colours.text}
menu.items.active.bg: Flat Solid
menu.items.active.bg.color: ${colours.line}
menu.items.active.text.color: ${colours.accent}
menu.title.bg: Flat Solid
menu.title.bg.color: ${colours.raised}
menu.title.text.color: ${colours.faint}
menu.title.text.justify: left
osd.bg: Flat Solid
osd.bg.color: ${colours.ground}
osd.label.text.color: ${colours.text}
`

const palette = [
  '#1d1a3f', '#e56b6f', '#8fd694', '#f2c57c', '#7aa2f7', '#c792ea', '#7fdbda', '#d9d2f0',
  '#5b4f86', '#ff8a80', '#b5eab7', '#ffe0a3', '#a5c0ff', '#e0b3ff', '#a8f0ee', '#ffffff',
] // biome-ignore format: eight plain colours, eight bright ones

/** Size of a terminal that leaves room around it, in characters, and of its font in points. */
export function terminalSize({ width, height }: Pick<Mode, 'width' | 'height'>): {
  columns: number
  rows: number
  points: number
} {
  const points = Math.max(7, Math.min(16, Math.round(8 + height / 360)))
  // DejaVu Sans Mono at 96 dots per inch: 0.602 em wide, 1.164 em high.
  const em = (points * 96) / 72
  const cells = (pixels: number, cell: number, least: number, most: number): number =>
    Math.max(least, Math.min(most, Math.floor(pixels / cell)))
  return {
    points,
    columns: cells(width * 0.66, em * 0.602, 20, 110),
    rows: cells(height * 0.62, em * 1.164, 4, 32),
  }
}

const terminalResources = (mode: Mode): string => {
  const { columns, rows, points } = terminalSize(mode)
  return `XTerm*geometry: ${columns}x${rows}
XTerm*faceName: DejaVu Sans Mono
XTerm*faceSize: ${points}
XTerm*background: ${colours.ground}
XTerm*foreground: ${colours.text}
XTerm*cursorColor: ${colours.accent}
XTerm*pointerColor: ${colours.text}
XTerm*internalBorder: 10
XTerm*borderWidth: 0
XTerm*scrollBar: false
XTerm*saveLines: 5000
XTerm*utf8: 1
XTerm*termName: xterm-256color
XTerm*metaSendsEscape: true
XTerm*selectToClipboard: true
XTerm*bellIsUrgent: false
XTerm*title: Terminal
${palette.map((colour, i) => `XTerm*color${i}: ${colour}`).join('\n')}
`
}

const bashrc = `# Of the session's shell; the session's home leaves with its display.
[ -f /etc/bash.bashrc ] && . /etc/bash.bashrc
PS1='\\[\\e[38;5;216m\\]\\u\\[\\e[38;5;103m\\]@\\h \\[\\e[38;5;183m\\]\\w\\[\\e[0m\\] \\$ '
alias ls='ls --color=auto' ll='ls -l'
HISTCONTROL=ignoreboth
`

/** Text files by their path below the display's folder. */
export function desktopFiles(folder: string, mode: Mode, terminal = ''): Record<string, string> {
  return {
    'openbox/rc.xml': rc('svc', `${folder}/openbox/menu.xml`, terminal),
    'openbox/menu.xml': menu(terminal),
    'share/themes/svc/openbox-3/themerc': theme,
    'terminal.resources': terminalResources(mode),
    'skeleton/.bashrc': bashrc,
  }
}
