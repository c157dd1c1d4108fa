package top

import "charm.land/bubbles/v2/key"

// keyMap is what the keys do. It is also what the help line and the help page are made of.
type keyMap struct {
	up, down, pageUp, pageDown, first, last key.Binding
	next, prev                              key.Binding
	open, back, log                         key.Binding
	sort, turn, filter                      key.Binding
	mesh, pause, help, quit                 key.Binding
}

func keys() keyMap {
	bind := func(help, desc string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, desc))
	}
	return keyMap{
		up: bind("k/up", "row up", "up", "k"), down: bind("j/down", "row down", "down", "j"),
		pageUp: bind("pgup", "page up", "pgup", "ctrl+b"), pageDown: bind("pgdn", "page down", "pgdown", "ctrl+f"),
		first: bind("g", "first row", "home", "g"), last: bind("G", "last row", "end", "G"),
		next: bind("tab", "panel", "tab"), prev: bind("shift+tab", "panel before", "shift+tab"),
		open: bind("enter", "open", "enter"), back: bind("esc", "back", "esc", "backspace"), log: bind("l", "log", "l"),
		sort: bind("s", "sort", "s"), turn: bind("r", "turn order", "r"), filter: bind("/", "filter", "/"),
		mesh: bind("m", "mesh", "m"), pause: bind("space", "pause", "space"), help: bind("?", "help", "?"), quit: bind("q", "quit", "q", "ctrl+c"),
	}
}

// ShortHelp is the help line.
func (k keyMap) ShortHelp() []key.Binding {
	return []key.Binding{k.quit, k.next, k.open, k.log, k.sort, k.filter, k.mesh, k.help}
}

// FullHelp is the help page.
func (k keyMap) FullHelp() [][]key.Binding {
	return [][]key.Binding{
		{k.up, k.down, k.pageUp, k.pageDown, k.first, k.last},
		{k.next, k.prev, k.open, k.back, k.log},
		{k.sort, k.turn, k.filter, k.mesh, k.pause, k.help, k.quit},
	}
}

// away is the help line of what was opened.
func (k keyMap) away() []key.Binding {
	return []key.Binding{k.back, k.up, k.down, k.pageDown, k.last, k.quit}
}
