//go:build !linux

package appliance

// spoolPlace: there is no memory-backed folder that every process sees.
func spoolPlace(state string, off bool) place { return place{state: state, off: off} }
