package setup

// Disable ends the service and keeps it from coming back.
var Disable = disable

// CutAt makes the plan's rename number n (from 0) do what act does instead.
func (p *Plan) CutAt(n int, rename, act func(from, to string) error) {
	at := 0
	p.rename = func(from, to string) error {
		at++
		if at-1 == n {
			return act(from, to)
		}
		return rename(from, to)
	}
}
